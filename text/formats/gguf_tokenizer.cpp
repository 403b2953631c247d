// Keys as in gguf-py's constants.py.
#include "text/formats/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "base/utf8.h"
#include "text/bpe/bpe_trainer.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/score_merges.h"
#include "text/formats/gguf_patterns.h"
#include "text/formats/tokenizer_file.h"
#include "text/split/lexer.h"

namespace weft::text {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model", kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens", kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges", kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

/// The tokens of a file, each text once and UTF-8, with their types.
class GgufVocabulary {
 public:
  explicit GgufVocabulary(const GgufFile& file) : file_(file), tokens_(file.texts(kTokensKey)) {
    if (file.has(kTypesKey)) types_ = file.integers(kTypesKey);
    if (!types_.empty() && types_.size() != tokens_.size()) {
      file.refuse(kTypesKey, fmt::format("a list of {}, one for each token", tokens_.size()));
    }
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_utf8(tokens_[id])) refuse(id, "isn't UTF-8", "tokens in UTF-8");
      const auto [there, added] = ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
      if (!added) refuse(id, fmt::format("is token {} too", there->second), "each token once");
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  bool is_type(std::size_t id, GgufTokenType type) const {
    return !types_.empty() && types_[id] == static_cast<std::int64_t>(type);
  }
  /// The id under a key, if it is one of a token.
  std::optional<std::int32_t> id(std::string_view key) const {
    if (!file_.has(key)) return std::nullopt;
    return static_cast<std::int32_t>(file_.integer(key, 0, std::ssize(tokens_) - 1));
  }
  const std::string& text(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }

 private:
  [[noreturn]] void refuse(std::size_t id, const std::string& found, std::string_view expected) const {
    throw UserError(
        fmt::format("{}: token {} of {}, '{}', {}", in_quotes(file_.path()), id, kTokensKey, tokens_[id], found),
        expected, kTokenizerFix);
  }

  const GgufFile& file_;
  const std::vector<std::string>& tokens_;
  std::vector<std::int64_t> types_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

/// The keys of ids that end a text, of a turn or of a message.
constexpr std::array<std::string_view, 3> kEndKeys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                      "tokenizer.ggml.eom_token_id"};
constexpr std::string_view kBeginKey = "tokenizer.ggml.bos_token_id";

/// The ids that begin and end texts, as far as they are told.
struct GgufEnds {
  std::optional<std::int32_t> begin, end, unknown, padding;
  std::vector<std::int32_t> ends;  // `end` first, and those of turns and messages

  explicit GgufEnds(const GgufVocabulary& vocabulary)
      : begin(vocabulary.id(kBeginKey)),
        end(vocabulary.id(kEndKeys[0])),
        unknown(vocabulary.id("tokenizer.ggml.unknown_token_id")),
        padding(vocabulary.id("tokenizer.ggml.padding_token_id")) {
    for (const std::string_view key : kEndKeys) {
      const auto id = vocabulary.id(key);
      if (id && std::ranges::find(ends, *id) == ends.end()) ends.push_back(*id);
    }
  }
};

bool flag_or(const GgufFile& file, std::string_view key, bool absent) {
  return file.has(key) ? file.flag(key) : absent;
}

JsonArray added_json(const GgufVocabulary& vocabulary, const GgufEnds& ends) {
  std::set<std::size_t> named;
  for (const auto& id : {ends.begin, ends.end, ends.unknown, ends.padding}) {
    if (id) named.insert(static_cast<std::size_t>(*id));
  }
  JsonArray added;
  for (std::size_t id = 0; id < vocabulary.tokens().size(); ++id) {
    const bool special = vocabulary.is_type(id, GgufTokenType::control) || named.contains(id);
    if (!special && !vocabulary.is_type(id, GgufTokenType::user_defined)) continue;
    added.add(JsonObject()
                  .add("id", id)
                  .add("content", vocabulary.tokens()[id])
                  .add("single_word", false)
                  .add("lstrip", false)
                  .add("rstrip", false)
                  .add("normalized", false)
                  .add("special", special));
  }
  return added;
}

JsonValue frame_json(const GgufVocabulary& vocabulary, const std::optional<std::int32_t>& before,
                     const std::optional<std::int32_t>& after) {
  if (!before && !after) return nullptr;
  JsonObject specials;
  const auto token = [&](std::int32_t id) {
    const std::string& text = vocabulary.text(id);
    return JsonObject().add("SpecialToken", JsonObject().add("id", text).add("type_id", 0));
  };
  const auto name = [&](std::int32_t id) {
    const std::string& text = vocabulary.text(id);
    specials.add(text, JsonObject().add("id", text).add("ids", JsonArray{id}).add("tokens", JsonArray{text}));
  };
  const auto sequence = [](const char* which, int type) {
    return JsonObject().add("Sequence", JsonObject().add("id", which).add("type_id", type));
  };
  JsonArray single, pair;
  if (before) single.add(token(*before)), pair.add(token(*before)), name(*before);
  single.add(sequence("A", 0)), pair.add(sequence("A", 0)), pair.add(sequence("B", 1));
  if (after) single.add(token(*after)), pair.add(token(*after));
  if (after && after != before) name(*after);
  return JsonObject()
      .add("type", "TemplateProcessing")
      .add("single", single)
      .add("pair", pair)
      .add("special_tokens", specials);
}

/// The parts of a tokenizer.json that its kind decides.
struct JsonParts {
  JsonValue pre_tokenizer = nullptr, decoder = nullptr, unknown = nullptr, merges = nullptr;
  bool byte_fallback = false, ignore_merges = false, begins = false;
};

JsonParts byte_level_parts(const GgufFile& file) {
  // Files of GPT-2 itself may lack the pattern's name.
  const bool gpt2 =
      !file.has(kPreKey) && file.has("general.architecture") && file.text("general.architecture") == "gpt2";
  const std::string name = gpt2 ? "gpt-2" : file.text(kPreKey);
  const GgufPattern* pattern = gguf_pattern(name);
  if (pattern == nullptr) file.refuse(kPreKey, gguf_pattern_names() + ", the patterns known");
  JsonParts parts;
  parts.pre_tokenizer = JsonValue::written(pre_tokenizer_json(*pattern));
  parts.decoder = JsonValue::written(byte_level_json(true));
  parts.merges = file.texts(kMergesKey);
  parts.ignore_merges = pattern->ignore_merges;
  parts.begins = pattern->begins;
  return parts;
}

JsonParts sentencepiece_parts(const GgufFile& file, const GgufVocabulary& vocabulary, const GgufEnds& ends) {
  const bool prefix = flag_or(file, "tokenizer.ggml.add_space_prefix", true);
  JsonParts parts;
  parts.pre_tokenizer = JsonObject()
                            .add("type", "Metaspace")
                            .add("replacement", "▁")
                            .add("prepend_scheme", prefix ? "first" : "never")
                            .add("split", false);
  JsonArray decoders;
  decoders.add(JsonObject().add("type", "Replace").add("pattern", JsonObject().add("String", "▁")).add("content", " "))
      .add(JsonObject().add("type", "ByteFallback"))
      .add(JsonObject().add("type", "Fuse"));
  if (prefix) decoders.add(JsonObject().add("type", "Strip").add("content", " ").add("start", 1).add("stop", 0));
  parts.decoder = JsonObject().add("type", "Sequence").add("decoders", decoders);
  if (ends.unknown) parts.unknown = vocabulary.text(*ends.unknown);
  parts.byte_fallback = parts.begins = true;
  if (file.has(kMergesKey)) {
    parts.merges = file.texts(kMergesKey);
    return parts;
  }
  const std::vector<double>& scores = file.numbers(kScoresKey);
  if (scores.size() != vocabulary.tokens().size()) {
    file.refuse(kScoresKey, fmt::format("a list of {}, one for each token", vocabulary.tokens().size()));
  }
  JsonArray merges;
  for (const auto& [left, right] : merges_by_scores(vocabulary.tokens(), scores)) merges.add(JsonArray{left, right});
  parts.merges = merges;
  return parts;
}

std::string tokenizer_json_of(const GgufFile& file, const GgufVocabulary& vocabulary, const GgufEnds& ends) {
  const std::string& kind = file.text(kModelKey);
  if (kind != "gpt2" && kind != "llama") file.refuse(kModelKey, "gpt2 or llama, the tokenizers implemented");
  const bool bytes = kind == "gpt2";
  if (holds_bytes(file)) return tokenizer_json_of_bytes();
  const JsonParts parts = bytes ? byte_level_parts(file) : sentencepiece_parts(file, vocabulary, ends);
  JsonObject ids;
  for (std::size_t id = 0; id < vocabulary.tokens().size(); ++id) ids.add(vocabulary.tokens()[id], id);
  JsonObject model;
  model.add("type", "BPE")
      .add("dropout", nullptr)
      .add("unk_token", parts.unknown)
      .add("continuing_subword_prefix", nullptr)
      .add("end_of_word_suffix", nullptr)
      .add("fuse_unk", !bytes)
      .add("byte_fallback", parts.byte_fallback)
      .add("ignore_merges", parts.ignore_merges)
      .add("vocab", ids)
      .add("merges", parts.merges);
  const bool before = flag_or(file, "tokenizer.ggml.add_bos_token", parts.begins);
  const bool after = flag_or(file, "tokenizer.ggml.add_eos_token", false);
  return JsonObject()
             .add("version", "1.0")
             .add("truncation", nullptr)
             .add("padding", nullptr)
             .add("added_tokens", added_json(vocabulary, ends))
             .add("normalizer", nullptr)
             .add("pre_tokenizer", parts.pre_tokenizer)
             .add("post_processor",
                  frame_json(vocabulary, before ? ends.begin : std::nullopt, after ? ends.end : std::nullopt))
             .add("decoder", parts.decoder)
             .add("model", model)
             .text() +
         "\n";
}

/// What Hugging Face's libraries read beside a tokenizer.json.
std::vector<TokenizerFile> settings_of(const GgufFile& file, const GgufVocabulary& vocabulary, const GgufEnds& ends) {
  const auto text = [&](const std::optional<std::int32_t>& id) {
    return id ? JsonValue(vocabulary.text(*id)) : JsonValue(nullptr);
  };
  const std::string config = JsonObject()
                                 .add("tokenizer_class", "PreTrainedTokenizerFast")
                                 .add("bos_token", text(ends.begin))
                                 .add("eos_token", text(ends.end))
                                 .add("unk_token", text(ends.unknown))
                                 .add("pad_token", text(ends.padding))
                                 .add("clean_up_tokenization_spaces", false)
                                 .text();
  std::vector<TokenizerFile> files = {{"tokenizer_config.json", config + "\n"}};
  if (const auto chat = gguf_chat_template(file)) files.push_back({"chat_template.jinja", *chat});
  if (ends.ends.size() > 1) {
    const std::string generation = JsonObject().add("eos_token_id", ends.ends).text();
    files.push_back({"generation_config.json", generation + "\n"});
  }
  return files;
}

}  // namespace

bool has_gguf_tokenizer(const GgufFile& file) {
  if (!file.has(kModelKey)) return false;
  const std::string& kind = file.text(kModelKey);
  return kind != "none" && kind != "no_vocab";
}

bool holds_bytes(const GgufFile& file) {
  constexpr std::size_t kBytes = 256;
  for (const std::string_view key : {kModelKey, kTokensKey, kMergesKey}) {
    if (!file.has(key)) return false;
  }
  const std::vector<std::string>& tokens = file.texts(kTokensKey);
  if (file.text(kModelKey) != "gpt2" || tokens.size() != kBytes + 1 || !file.texts(kMergesKey).empty()) return false;
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const char text = static_cast<char>(byte);
    if (tokens[byte] != in_byte_alphabet({&text, 1})) return false;
  }
  return tokens.back() == kEndOfText;
}

ListedEnds listed_ends(const GgufFile& file, std::int64_t vocabulary) {
  ListedEnds listed;
  const auto id_of_key = [&](std::string_view key) -> std::optional<std::int32_t> {
    if (!file.has(key)) return std::nullopt;
    const std::int64_t id = file.integer(key, 0, std::numeric_limits<std::int32_t>::max());
    return id < vocabulary ? std::optional(static_cast<std::int32_t>(id)) : std::nullopt;
  };
  listed.begin = id_of_key(kBeginKey);
  for (const std::string_view key : kEndKeys) {
    const auto id = id_of_key(key);
    if (id && std::ranges::find(listed.ends, *id) == listed.ends.end()) listed.ends.push_back(*id);
  }
  return listed;
}

std::optional<std::string> gguf_chat_template(const GgufFile& file) {
  return file.has(kTemplateKey) ? std::optional(file.text(kTemplateKey)) : std::nullopt;
}

std::string gguf_tokenizer_json(const GgufFile& file) {
  const GgufVocabulary vocabulary(file);
  return tokenizer_json_of(file, vocabulary, GgufEnds(vocabulary));
}

TokenizerPointer load_gguf_tokenizer(const GgufFile& file) {
  const GgufVocabulary vocabulary(file);
  const GgufEnds ends(vocabulary);
  std::string content = tokenizer_json_of(file, vocabulary, ends);
  const Document document = read_tokenizer_json(content, file.path());
  return load_tokenizer_json(file.path(), std::move(content), document,
                             SettingFiles(file.path(), settings_of(file, vocabulary, ends)));
}

}  // namespace weft::text
