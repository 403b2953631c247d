// Token files in llm.c's format, with a description beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "text/tokenizer.h"

namespace weft::text {

/// What was written.
struct TokenFileSummary {
  std::string width;  // "u16" or "u32"
  std::uint64_t tokens = 0, documents = 0, bytes = 0;
  std::uint64_t text_bytes = 0;
};

/// Writes FILE (a header of 1024 bytes; ids of 16 bits if the vocabulary has at most 65,536, else of 32), and
/// FILE.json, which names the width, the vocabulary, the tokenizer's digest, the first token of each document and, if
/// there are any, the ranges of tokens that aren't learnt.
/// Neither is there before commit().
class TokenFileWriter {
 public:
  /// `separator` is written before each document, as llm.c does, but for dialogues: their template says what stands
  /// before them.
  TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer, std::optional<std::int32_t> separator);

  void begin_document(bool is_chat = false);
  /// Appends ids of the document, of which those in the ranges aren't learnt; then the separator isn't either. Throws
  /// RuntimeFault if the file can't be written, UserError beyond the 2,147,483,647 tokens that a header can count.
  void add(std::span<const std::int32_t> ids, std::uint64_t text_bytes, std::span<const IdRange> ignored = {});
  TokenFileSummary commit();

 private:
  void write_buffer();
  void ignore(IdRange range);
  std::string description() const;

  std::filesystem::path path_;
  const TokenizerFacts& facts_;
  std::optional<std::int32_t> separator_;
  DurableFile file_;
  TokenFileSummary summary_;
  std::vector<std::uint64_t> begins_;  // first token of each document
  std::uint64_t chats_ = 0;            // documents that are dialogues
  std::vector<IdRange> ignored_;
  std::vector<std::byte> buffer_;
};

/// The member of a description with the ranges of tokens that aren't learnt.
inline constexpr const char* kIgnoredRanges = "ignored";
/// And with the number of documents without a separator before them.
inline constexpr const char* kChats = "chats";

/// The name of the description of a token file.
std::filesystem::path description_path(const std::filesystem::path& token_file);

}  // namespace weft::text
