// The byte-level tokenizer: every text is tokens, and no vocabulary files are needed.
#pragma once

#include "text/tokenizer.h"

namespace weft::text {

/// Ids 0..255 are bytes, 256 ends a text. "Hi" is {72, 105}. No text means 256: "<|endoftext|>" are 13 bytes.
/// Its files are for other libraries: a tokenizer.json that gives the same ids.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfText = 256;
  static constexpr std::int32_t kVocabulary = 257;

  ByteTokenizer();

  using Tokenizer::encode;
  /// One id a byte, also of bytes that aren't UTF-8; no end-of-text is added.
  void encode(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override;
  /// The bytes of `ids`, whether or not they are valid UTF-8; end-of-text reads "<|endoftext|>".
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override;
  /// A byte in GPT-2's alphabet: "a", "Ġ" for a space.
  std::optional<std::string> token_text(std::int32_t id) const override;
  std::optional<std::int32_t> token_id(std::string_view text) const override;
  bool is_special(std::int32_t id) const override { return id == kEndOfText; }
  std::size_t cut_after(std::string_view text, std::size_t from) const override;
};

}  // namespace weft::text
