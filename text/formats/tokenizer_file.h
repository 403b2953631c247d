// What the readers of tokenizer files share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/document.h"
#include "text/bpe_tokenizer.h"
#include "text/tokenizer.h"

namespace weft::text {

/// How messages about files of tokenizers end.
inline constexpr const char* kTokenizerFix =
    "use a tokenizer of the kinds in docs/text.md, or write token ids to a .bin file with the library it was made for";

bool is_file(const std::filesystem::path& path);
/// The content of a tokenizer's file of any size that one may have.
std::string read_tokenizer_file(const std::filesystem::path& path);
Document read_tokenizer_json(std::string_view text, const std::filesystem::path& path);

/// A member that is true or false; `otherwise` if it is absent or null.
bool flag(const DocumentValue& object, std::string_view key, bool otherwise = false);
/// A token's id.
std::int32_t id_of(const DocumentValue& value);

/// The next line of a text, which it leaves out of it.
std::string_view next_line(std::string_view& text);

/// The settings that go with a tokenizer: the files of a folder, or what one file says in their place.
class SettingFiles {
 public:
  SettingFiles(std::filesystem::path folder) : place_(std::move(folder)) {}
  SettingFiles(std::filesystem::path file, std::vector<TokenizerFile> files)
      : place_(std::move(file)), files_(std::move(files)) {}

  /// Nothing if there is no such file. Throws UserError if it can't be read.
  std::optional<std::string> content(std::string_view name) const;
  /// A file's name in messages.
  std::filesystem::path path(std::string_view name) const { return files_ ? place_ : place_ / name; }

 private:
  std::filesystem::path place_;
  std::optional<std::vector<TokenizerFile>> files_;
};

/// What is known of a tokenizer but the ends of texts: `own` are the files that say how texts are encoded, and settings
/// that belong to a tokenizer are added.
TokenizerFacts facts_of(const SettingFiles& settings, std::string kind, std::size_t vocabulary,
                        std::vector<TokenizerFile> own);

/// Sets the ids of begin and end of a text: by tokenizer_config.json or config.json, else by usual names.
void find_ends(const SettingFiles& settings, const std::function<std::optional<std::int32_t>(std::string_view)>& id_of,
               TokenizerFacts& facts);

/// Refuses an added_tokens.json in the folder that names tokens beyond those of the vocabulary beside it: texts would
/// have other ids.
void expect_none_added(const std::filesystem::path& folder,
                       const std::function<std::optional<std::int32_t>(std::string_view)>& id_of);

/// Sets the text of an id; throws UserError if it has another.
void set_text(std::vector<std::string>& texts, std::int32_t id, std::string_view text, const std::string& place);

/// `settings`: in place of those beside the file.
TokenizerPointer load_tokenizer_json(const std::filesystem::path& path, std::string content, const Document& document,
                                     const std::optional<SettingFiles>& settings = {});
TokenizerPointer load_tekken(const std::filesystem::path& path, std::string content, const Document& document);
TokenizerPointer load_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges);
TokenizerPointer load_tiktoken(const std::filesystem::path& path, std::string content);
TokenizerPointer load_sentencepiece(const std::filesystem::path& path, std::string content);

/// Whether a file's content is lines of base64 and rank.
bool is_tiktoken(std::string_view content);

}  // namespace weft::text
