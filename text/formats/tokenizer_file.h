// What the readers of tokenizer files share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

/// What is known of a tokenizer but the ends of texts: `own` are the files that say how texts are encoded, and settings
/// beside `path` that belong to a tokenizer are added.
TokenizerFacts facts_of(const std::filesystem::path& path, std::string kind, std::size_t vocabulary,
                        std::vector<TokenizerFile> own);

/// Sets the ids of begin and end of a text: by tokenizer_config.json or config.json in the folder, else by usual names.
void find_ends(const std::filesystem::path& folder,
               const std::function<std::optional<std::int32_t>(std::string_view)>& id_of, TokenizerFacts& facts);

/// Refuses an added_tokens.json in the folder that names tokens beyond those of the vocabulary beside it: texts would
/// have other ids.
void expect_none_added(const std::filesystem::path& folder,
                       const std::function<std::optional<std::int32_t>(std::string_view)>& id_of);

/// Sets the text of an id; throws UserError if it has another.
void set_text(std::vector<std::string>& texts, std::int32_t id, std::string_view text, const std::string& place);

TokenizerPointer load_tokenizer_json(const std::filesystem::path& path, std::string content, const Document& document);
TokenizerPointer load_tekken(const std::filesystem::path& path, std::string content, const Document& document);
TokenizerPointer load_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges);
TokenizerPointer load_tiktoken(const std::filesystem::path& path, std::string content);
TokenizerPointer load_sentencepiece(const std::filesystem::path& path, std::string content);

/// Whether a file's content is lines of base64 and rank.
bool is_tiktoken(std::string_view content);

}  // namespace weft::text
