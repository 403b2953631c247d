// What the readers of tokenizer files share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
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

/// The file itself and the settings beside it that belong to a tokenizer, as far as they are there.
std::vector<TokenizerFile> with_files_beside(const std::filesystem::path& path, std::string content);

/// The digest of a file's content.
std::uint64_t digest_of(std::string_view content);

/// The most that an id or a count in a file may be.
inline constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();

/// The ids of begin and end of a text: by tokenizer_config.json or config.json in the folder, else by usual names.
struct TextEnds {
  std::optional<std::int32_t> begin, end;
};
TextEnds find_ends(const std::filesystem::path& folder,
                   const std::function<std::optional<std::int32_t>(std::string_view)>& id_of);

/// Tokens whose ids follow their ranks, as tiktoken has them.
struct RankedTokens {
  std::vector<BpeToken> tokens;  // their bytes
  std::vector<AddedToken> specials;
  SplitStep split;
  std::string place;  // opens messages
};
BpeParts ranked_parts(RankedTokens tokens);

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
