#include "text/formats/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/files/json_file.h"
#include "base/files/text_file.h"
#include "base/hash.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::array kBeside = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                "chat_template.jinja"};

/// "bos_token" is a text, or an object with the text as its content.
std::optional<std::string> token_name(const DocumentValue& config, std::string_view key) {
  auto value = config.find(key);
  if (value && value->is_object()) value = value->find("content");
  if (!value || value->is_null()) return std::nullopt;
  return value->text();
}

/// "eos_token_id" is an id, or a list of them.
std::optional<std::int32_t> token_number(const DocumentValue& config, std::string_view key) {
  auto value = config.find(key);
  if (!value || value->is_null()) return std::nullopt;
  if (value->is_list()) {
    const auto items = value->items();
    if (items.empty()) return std::nullopt;
    value = items.front();
  }
  return static_cast<std::int32_t>(value->integer(0, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string read_tokenizer_file(const fs::path& path) {
  return read_text_file(path, "the tokenizer's file", kMostBytes, "a tokenizer's file", "check the path");
}

Document read_tokenizer_json(std::string_view text, const fs::path& path) {
  return read_json(text, in_quotes(path), {.most_values = 32'000'000, .fix = kTokenizerFix});
}

std::vector<TokenizerFile> with_files_beside(const fs::path& path, std::string content) {
  std::vector<TokenizerFile> files{{path.filename().string(), std::move(content)}};
  for (const char* name : kBeside) {
    const fs::path beside = path.parent_path() / name;
    if (is_file(beside)) files.push_back({name, read_tokenizer_file(beside)});
  }
  return files;
}

std::uint64_t digest_of(std::string_view content) {
  return Fingerprint().add(content).value();
}

TextEnds find_ends(const fs::path& folder, const std::function<std::optional<std::int32_t>(std::string_view)>& id_of) {
  TextEnds ends;
  if (const fs::path path = folder / "tokenizer_config.json"; is_file(path)) {
    const std::string content = read_tokenizer_file(path);
    const Document document = read_tokenizer_json(content, path);
    if (const auto name = token_name(document.root(), "bos_token")) ends.begin = id_of(*name);
    if (const auto name = token_name(document.root(), "eos_token")) ends.end = id_of(*name);
  }
  if (const fs::path path = folder / "config.json"; is_file(path)) {
    const std::string content = read_tokenizer_file(path);
    const Document document = read_tokenizer_json(content, path);
    if (!ends.begin) ends.begin = token_number(document.root(), "bos_token_id");
    if (!ends.end) ends.end = token_number(document.root(), "eos_token_id");
  }
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::optional<std::int32_t> {
    for (const char* name : names) {
      if (const auto id = id_of(name)) return id;
    }
    return std::nullopt;
  };
  if (!ends.begin) {
    ends.begin = first_of({"<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "<｜begin▁of▁sentence｜>"});
  }
  if (!ends.end) {
    ends.end = first_of({"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "<｜end▁of▁sentence｜>", "<EOT>"});
  }
  return ends;
}

void set_text(std::vector<std::string>& texts, std::int32_t id, std::string_view text, const std::string& place) {
  constexpr std::int32_t kMostTokens = 1 << 22;  // an id takes memory, and no model has more
  if (id < 0 || id >= kMostTokens) {
    throw UserError(fmt::format("{}: the token '{}' has id {}", place, text, id),
                    fmt::format("ids from 0 to {}", kMostTokens - 1), kTokenizerFix);
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= texts.size()) texts.resize(index + 1);
  if (!texts[index].empty() && texts[index] != text) {
    throw UserError(fmt::format("{}: '{}' and '{}' have id {}", place, texts[index], text, id), "one token an id",
                    kTokenizerFix);
  }
  texts[index] = text;
}

BpeParts ranked_parts(RankedTokens tokens) {
  std::vector<std::string> texts;
  for (const BpeToken& token : tokens.tokens) set_text(texts, token.id, in_byte_alphabet(token.text), tokens.place);
  for (const AddedToken& special : tokens.specials) set_text(texts, special.id, special.text, tokens.place);
  PreTokenizer pre_tokenizer;
  pre_tokenizer.steps.push_back(std::move(tokens.split));
  pre_tokenizer.bytes = true;
  Decoder decoder;
  decoder.steps.emplace_back(DecodeByteLevel{});
  BpeOptions options{.place = tokens.place, .bytes = true, .ignore_merges = true, .unknown = std::nullopt};
  return {.normalizer = {},
          .pre_tokenizer = std::move(pre_tokenizer),
          .model = BpeModel::of_ranks(std::move(tokens.tokens), std::move(options)),
          .added = AddedTokens(std::move(tokens.specials), [](std::string_view text) { return std::string(text); }),
          .before = {},
          .after = {},
          .decoder = std::move(decoder),
          .texts = std::move(texts)};
}

}  // namespace weft::text
