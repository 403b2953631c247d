// The text of tokens as they come, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace weft::text {

/// Holds a character back until its last byte has come. `tokenizer` must outlive the object.
///
///   TextStream stream(tokenizer, prompt);
///   print(stream.add(id));
///   print(stream.finish());
class TextStream {
 public:
  /// `before`: ids whose text is known, on which the text of the next may depend.
  explicit TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before = {});

  /// The characters that are complete with this id. An id without a token, as in padding of a vocabulary, has no text.
  std::string add(std::int32_t id);
  /// The bytes of a character that isn't complete.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;  // the last ones
  std::size_t shown_ = 0;          // bytes of their text
};

}  // namespace weft::text
