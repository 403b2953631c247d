// Bytes to ids and back.
#include "train/data/tokenizer.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::train {

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kVocabulary) {
      throw UserError(fmt::format("token {} has id {}", i, ids[i]), "0 to 256, the byte tokenizer's ids",
                      "decode these tokens with the tokenizer they were made with");
    }
    if (ids[i] == kEndOfText) {
      text.append("<|endoftext|>");
    } else {
      text.push_back(static_cast<char>(ids[i]));
    }
  }
  return text;
}

}  // namespace weft::train
