// Names as in llama.cpp's llama-vocab.cpp. "default" is the pattern that transformers takes for it, GPT-2's.
#include "text/formats/gguf_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/text/json_object.h"
#include "text/split/lexer.h"

namespace weft::text {
namespace {

constexpr std::array kGgufPatterns = {
    GgufPattern{.name = "gpt-2", .lexer = "gpt2"},
    GgufPattern{.name = "default", .lexer = "gpt2"},
    GgufPattern{.name = "phi-2", .lexer = "gpt2"},
    GgufPattern{.name = "mpt", .lexer = "gpt2"},
    GgufPattern{.name = "olmo", .lexer = "gpt2"},
    GgufPattern{.name = "llama-bpe", .lexer = "llama3", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "llama3", .lexer = "llama3", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "llama-v3", .lexer = "llama3", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "falcon3", .lexer = "llama3", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "pixtral", .lexer = "llama3", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "dbrx", .lexer = "llama3"},
    GgufPattern{.name = "smaug-bpe", .lexer = "llama3"},
    GgufPattern{.name = "qwen2", .lexer = "qwen2"},
    GgufPattern{.name = "deepseek-r1-qwen", .lexer = "qwen2"},
    GgufPattern{.name = "megrez", .lexer = "qwen2"},
    GgufPattern{.name = "stablelm2", .lexer = "qwen2"},
    GgufPattern{.name = "smollm", .lexer = "gpt2", .digits = true},
    GgufPattern{.name = "starcoder", .lexer = "gpt2", .digits = true},
    GgufPattern{.name = "refact", .lexer = "gpt2", .digits = true},
    GgufPattern{.name = "command-r", .lexer = "gpt2", .digits = true},
    GgufPattern{.name = "tekken", .lexer = "tekken", .ignore_merges = true, .begins = true},
    GgufPattern{.name = "gpt-4o", .lexer = "o200k"},
    GgufPattern{.name = "llama4", .lexer = "o200k"},
};

}  // namespace

const GgufPattern* gguf_pattern(std::string_view name) {
  const auto found = std::ranges::find(kGgufPatterns, name, &GgufPattern::name);
  return found == kGgufPatterns.end() ? nullptr : &*found;
}

std::string gguf_pattern_names() {
  std::vector<std::string> names;
  for (const GgufPattern& pattern : kGgufPatterns) names.emplace_back(pattern.name);
  return join(names);
}

std::string_view gguf_name_of(std::string_view lexer, bool digits, bool ignore_merges) {
  for (const GgufPattern& pattern : kGgufPatterns) {
    if (pattern.lexer == lexer && pattern.digits == digits && pattern.ignore_merges == ignore_merges) {
      return pattern.name;
    }
  }
  return "";
}

std::string byte_level_json(bool use_regex) {
  return JsonObject()
      .add("type", "ByteLevel")
      .add("add_prefix_space", false)
      .add("trim_offsets", true)
      .add("use_regex", use_regex)
      .text();
}

std::string pre_tokenizer_json(const GgufPattern& pattern) {
  JsonArray steps;
  if (pattern.digits) steps.add(JsonObject().add("type", "Digits").add("individual_digits", true));
  const bool gpt2 = pattern.lexer == "gpt2";
  if (!gpt2) {
    steps.add(JsonObject()
                  .add("type", "Split")
                  .add("pattern", JsonObject().add("Regex", lexer_named(pattern.lexer)->expression))
                  .add("behavior", "Isolated")
                  .add("invert", false));
  }
  if (gpt2 && !pattern.digits) return byte_level_json(true);
  steps.add(JsonValue::written(byte_level_json(gpt2)));
  return JsonObject().add("type", "Sequence").add("pretokenizers", steps).text();
}

}  // namespace weft::text
