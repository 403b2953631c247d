// Finds a tokenizer's file and the reader that its content needs; and what the readers share.
#include "text/formats/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/hash.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::array kBeside = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                "chat_template.jinja"};

std::uint64_t digest_of(std::string_view content) {
  return Fingerprint().add(content).value();
}

/// "bos_token" is a text, or an object with the text as its content.
std::optional<std::string> token_name(const DocumentValue& config, std::string_view key) {
  auto value = config.given(key);
  if (value && value->is_object()) value = value->given("content");
  return value ? std::optional(value->text()) : std::nullopt;
}

/// "eos_token_id" is an id, or a list of them.
std::optional<std::int32_t> token_number(const DocumentValue& config, std::string_view key) {
  auto value = config.given(key);
  if (value && value->is_list()) {
    const auto items = value->items();
    value = items.empty() ? std::nullopt : std::optional(items.front());
  }
  return value ? std::optional(id_of(*value)) : std::nullopt;
}

constexpr std::string_view kVocabularyFile = "vocab.json", kMergesFile = "merges.txt";

/// The file that load_tokenizer() takes in a folder.
std::optional<fs::path> file_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tekken.json", "tokenizer.model"}) {
    if (is_file(folder / name)) return folder / name;
  }
  if (is_file(folder / kVocabularyFile) && is_file(folder / kMergesFile)) return folder / kVocabularyFile;
  std::optional<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".tiktoken") continue;
    if (found) {
      throw UserError(fmt::format("{} has several .tiktoken files", in_quotes(folder)), "one tokenizer",
                      "name the file");
    }
    found = entry.path();
  }
  return found;
}

bool begins_object(std::string_view content) {
  const std::size_t begin = content.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && content[begin] == '{';
}

TokenizerPointer load_json(const fs::path& path, std::string content) {
  const Document document = read_tokenizer_json(content, path);
  if (document.root().find("model")) return load_tokenizer_json(path, std::move(content), document);
  if (document.root().find("config")) return load_tekken(path, std::move(content), document);
  throw UserError(fmt::format("{} has neither a \"model\" nor a \"config\"", in_quotes(path)),
                  "a tokenizer.json of Hugging Face or a tekken.json of Mistral", kTokenizerFix);
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

bool flag(const DocumentValue& object, std::string_view key, bool otherwise) {
  const auto value = object.given(key);
  return value ? value->boolean() : otherwise;
}

std::int32_t id_of(const DocumentValue& value) {
  return static_cast<std::int32_t>(value.integer(0, std::numeric_limits<std::int32_t>::max()));
}

std::string_view next_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

TokenizerFacts facts_of(const fs::path& path, std::string kind, std::size_t vocabulary,
                        std::vector<TokenizerFile> own) {
  std::vector<std::string> digests;
  for (const TokenizerFile& file : own) digests.push_back(std::to_string(digest_of(file.content)));
  TokenizerFacts facts;
  facts.kind = std::move(kind);
  facts.vocabulary = static_cast<std::int32_t>(vocabulary);
  facts.digest = digests.size() == 1 ? digest_of(own.front().content) : digest_of(join(digests, ""));
  facts.files = std::move(own);
  for (const char* name : kBeside) {
    const fs::path beside = path.parent_path() / name;
    if (is_file(beside)) facts.files.push_back({name, read_tokenizer_file(beside)});
  }
  return facts;
}

void find_ends(const fs::path& folder, const std::function<std::optional<std::int32_t>(std::string_view)>& id_of,
               TokenizerFacts& facts) {
  const auto read = [&](const char* name, const auto& look) {
    const fs::path path = folder / name;
    if (!is_file(path)) return;
    const std::string content = read_tokenizer_file(path);
    const Document document = read_tokenizer_json(content, path);
    look(document.root());
  };
  read("tokenizer_config.json", [&](const DocumentValue& config) {
    if (const auto name = token_name(config, "bos_token")) facts.begin = id_of(*name);
    if (const auto name = token_name(config, "eos_token")) facts.end = id_of(*name);
  });
  read("config.json", [&](const DocumentValue& config) {
    if (!facts.begin) facts.begin = token_number(config, "bos_token_id");
    if (!facts.end) facts.end = token_number(config, "eos_token_id");
  });
  const auto find = [&](std::optional<std::int32_t>& id, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (!id) id = id_of(name);
    }
  };
  find(facts.begin, {"<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "<｜begin▁of▁sentence｜>"});
  find(facts.end, {"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "<｜end▁of▁sentence｜>", "<EOT>"});
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

bool has_tokenizer(const fs::path& folder) {
  return file_in(folder).has_value();
}

TokenizerPointer load_tokenizer(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const auto file = file_in(path);
    if (file) return load_tokenizer(*file);
    throw UserError(in_quotes(path) + " has no tokenizer",
                    "tokenizer.json, tekken.json, tokenizer.model, vocab.json with merges.txt, or a .tiktoken file",
                    "name another folder, or the tokenizer's file");
  }
  if (path.filename() == kVocabularyFile || path.filename() == kMergesFile) {
    return load_gpt2_files(path.parent_path() / kVocabularyFile, path.parent_path() / kMergesFile);
  }
  std::string content = read_tokenizer_file(path);
  if (begins_object(content)) return load_json(path, std::move(content));
  if (is_tiktoken(content)) return load_tiktoken(path, std::move(content));
  return load_sentencepiece(path, std::move(content));
}

}  // namespace weft::text
