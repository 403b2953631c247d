// The byte-level tokenizer: every file is tokens, no vocabulary files needed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::train {

/// Ids 0..255 are bytes, 256 ends a text. "Hi" is {72, 105}.
class ByteTokenizer {
 public:
  static constexpr std::int32_t kEndOfText = 256;
  static constexpr std::int32_t kVocabulary = 257;

  /// One id a byte; no end-of-text is added.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of `ids`, whether or not they are valid UTF-8; end-of-text reads "<|endoftext|>". Throws UserError,
  /// naming id and position, on an id outside [0, 257).
  std::string decode(std::span<const std::int32_t> ids) const;
};

}  // namespace weft::train
