// Finds a tokenizer's file and the reader that its content needs; and what the readers share.
#include "text/formats/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/gguf_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "text/formats/gguf_tokenizer.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::array kBeside = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                "chat_template.jinja", "generation_config.json"};

std::uint64_t digest_of(std::string_view content) {
  return Fingerprint().add(content).value();
}

/// "bos_token" is a text, or an object with the text as its content.
std::optional<std::string> token_name(const DocumentValue& config, std::string_view key) {
  auto value = config.given(key);
  if (value && value->is_object()) value = (*value)["content"];
  return value ? std::optional(value->text()) : std::nullopt;
}

/// "eos_token_id" is an id, or a list of them.
std::vector<std::int32_t> token_numbers(const DocumentValue& config, std::string_view key) {
  std::vector<std::int32_t> ids;
  const auto value = config.given(key);
  if (!value) return ids;
  for (const DocumentValue& item : value->is_list() ? value->items() : std::vector{*value}) ids.push_back(id_of(item));
  return ids;
}

void read_settings(const SettingFiles& settings, std::string_view name,
                   const std::function<void(const DocumentValue& settings)>& look) {
  const std::optional<std::string> content = settings.content(name);
  if (!content) return;
  const Document document = read_tokenizer_json(*content, settings.path(name));
  look(document.root());
}

ListedEnds ends_in(const SettingFiles& settings, std::int64_t vocabulary) {
  ListedEnds listed;
  const auto is_other = [&](std::int32_t id) { return id >= vocabulary; };
  for (const char* name : {"generation_config.json", "config.json"}) {
    read_settings(settings, name, [&](const DocumentValue& config) {
      std::vector<std::int32_t> begins = token_numbers(config, "bos_token_id");
      std::erase_if(begins, is_other);
      if (!listed.begin && !begins.empty()) listed.begin = begins.front();
      for (const std::int32_t id : token_numbers(config, "eos_token_id")) {
        if (!is_other(id) && std::ranges::find(listed.ends, id) == listed.ends.end()) listed.ends.push_back(id);
      }
    });
  }
  return listed;
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

std::optional<std::string> SettingFiles::content(std::string_view name) const {
  if (!files_) return is_file(place_ / name) ? std::optional(read_tokenizer_file(place_ / name)) : std::nullopt;
  const auto found = std::ranges::find(*files_, name, &TokenizerFile::name);
  return found == files_->end() ? std::nullopt : std::optional(found->content);
}

TokenizerFacts facts_of(const SettingFiles& settings, std::string kind, std::size_t vocabulary,
                        std::vector<TokenizerFile> own) {
  std::vector<std::string> digests;
  for (const TokenizerFile& file : own) digests.push_back(std::to_string(digest_of(file.content)));
  TokenizerFacts facts;
  facts.kind = std::move(kind);
  facts.vocabulary = static_cast<std::int32_t>(vocabulary);
  facts.digest = digests.size() == 1 ? digest_of(own.front().content) : digest_of(join(digests, ""));
  facts.files = std::move(own);
  for (const char* name : kBeside) {
    if (auto content = settings.content(name)) facts.files.push_back({name, *std::move(content)});
  }
  return facts;
}

void find_ends(const SettingFiles& settings, const std::function<std::optional<std::int32_t>(std::string_view)>& id_of,
               TokenizerFacts& facts) {
  bool told_begin = false, told_end = false;  // null tells that there is none
  std::vector<std::int32_t> ends;
  read_settings(settings, "tokenizer_config.json", [&](const DocumentValue& config) {
    const auto take = [&](std::string_view key, std::optional<std::int32_t>& id, bool& told) {
      told = config.find(key).has_value();
      const auto name = token_name(config, key);
      if (told) id = name ? id_of(*name) : std::nullopt;
      if (name && !id) config[key].refuse("a token of the vocabulary");
    };
    take("bos_token", facts.begin, told_begin);
    take("eos_token", facts.end, told_end);
    ends = token_numbers(config, "eos_token_id");
  });
  const ListedEnds listed = ends_in(settings, facts.vocabulary);
  ends.insert(ends.end(), listed.ends.begin(), listed.ends.end());
  std::erase_if(ends, [&](std::int32_t id) { return id >= facts.vocabulary; });
  if (!facts.begin && !told_begin) facts.begin = listed.begin;
  if (!facts.end && !told_end && !ends.empty()) facts.end = ends.front();
  const auto find = [&](std::optional<std::int32_t>& id, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (!id) id = id_of(name);
    }
  };
  if (!told_begin) {
    find(facts.begin, {"<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "<｜begin▁of▁sentence｜>"});
  }
  if (!told_end) {
    find(facts.end, {"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "<｜end▁of▁sentence｜>", "<EOT>"});
  }
  if (facts.end) ends.insert(ends.begin(), *facts.end);
  for (const std::int32_t id : ends) {
    if (std::ranges::find(facts.ends, id) == facts.ends.end()) facts.ends.push_back(id);
  }
}

ListedEnds listed_ends(const fs::path& folder, std::int64_t vocabulary) {
  return is_gguf(folder) ? listed_ends(GgufFile(folder), vocabulary) : ends_in(folder, vocabulary);
}

void expect_none_added(const fs::path& folder,
                       const std::function<std::optional<std::int32_t>(std::string_view)>& id_of) {
  read_settings(folder, "added_tokens.json", [&](const DocumentValue& added) {
    for (const auto& [text, number] : added.members()) {
      if (id_of(text) != text::id_of(number)) number.refuse("the id of a token in the vocabulary beside it");
    }
  });
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
  return is_gguf(folder) ? has_gguf_tokenizer(GgufFile(folder)) : file_in(folder).has_value();
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
  if (is_gguf(path)) return load_gguf_tokenizer(GgufFile(path));
  if (path.filename() == kVocabularyFile || path.filename() == kMergesFile) {
    return load_gpt2_files(path.parent_path() / kVocabularyFile, path.parent_path() / kMergesFile);
  }
  std::string content = read_tokenizer_file(path);
  if (begins_object(content)) return load_json(path, std::move(content));
  if (is_tiktoken(content)) return load_tiktoken(path, std::move(content));
  return load_sentencepiece(path, std::move(content));
}

}  // namespace weft::text
