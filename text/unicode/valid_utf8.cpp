#include "text/unicode/valid_utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/utf8.h"

namespace weft::text {
namespace {

/// The first byte that isn't UTF-8, or the size.
std::size_t valid_bytes(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof word) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & kHighBits) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const std::size_t length = first_character(text.substr(at)).length;
    if (length == 0) return at;
    at += length;
  }
  return at;
}

/// Bytes of the longest beginning of a character; 1 if no character begins so.
std::size_t wrong_bytes(std::string_view text) {
  constexpr std::size_t kLongest = 3;
  std::size_t length = 1;
  while (length < std::min(text.size(), kLongest) && breaks_off(text.substr(0, length)) &&
         breaks_off(text.substr(0, length + 1))) {
    ++length;
  }
  // A second byte may go on in form, and still give no character: a surrogate, an overlong form.
  if (length > 1) {
    const auto first = static_cast<unsigned char>(text[0]), second = static_cast<unsigned char>(text[1]);
    const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    if (wrong) return 1;
  }
  return length;
}

}  // namespace

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  std::size_t valid = valid_bytes(text);
  if (valid == text.size()) return text;
  storage.clear();
  storage.reserve(text.size() + 64);
  while (true) {
    storage.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return storage;
    storage.append("\xEF\xBF\xBD");
    text.remove_prefix(wrong_bytes(text));
    valid = valid_bytes(text);
  }
}

}  // namespace weft::text
