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
/// FILE.json, which names the width, the vocabulary, the tokenizer's digest and the first token of each document.
/// Neither is there before commit().
class TokenFileWriter {
 public:
  /// `separator` is written before each document, as llm.c does.
  TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer, std::optional<std::int32_t> separator);

  void begin_document();
  /// Appends ids of the document. Throws RuntimeFault if the file can't be written, UserError beyond the 2,147,483,647
  /// tokens that a header can count.
  void add(std::span<const std::int32_t> ids, std::uint64_t text_bytes);
  TokenFileSummary commit();

 private:
  void write_buffer();
  std::string description() const;

  std::filesystem::path path_;
  const TokenizerFacts& facts_;
  std::optional<std::int32_t> separator_;
  DurableFile file_;
  TokenFileSummary summary_;
  std::vector<std::uint64_t> begins_;  // first token of each document
  std::vector<std::byte> buffer_;
};

/// The name of the description of a token file.
std::filesystem::path description_path(const std::filesystem::path& token_file);

}  // namespace weft::text
