#include "text/bpe/byte_alphabet.h"

#include "base/utf8.h"

namespace weft::text {
namespace {

constexpr std::uint32_t kCodes = 256 + 68;  // of the alphabet

}  // namespace

const std::array<std::uint16_t, 256>& byte_alphabet() {
  static const std::array<std::uint16_t, 256> alphabet = [] {
    std::array<std::uint16_t, 256> codes{};
    std::uint16_t next = 256;
    for (std::uint16_t byte = 0; byte < 256; ++byte) {
      const bool own_number = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      codes[byte] = own_number ? byte : next++;
    }
    return codes;
  }();
  return alphabet;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_character(text, byte_alphabet()[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  static const std::array<std::int16_t, kCodes> bytes = [] {
    std::array<std::int16_t, kCodes> inverse{};
    inverse.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) inverse[byte_alphabet()[byte]] = static_cast<std::int16_t>(byte);
    return inverse;
  }();
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    if (character.length == 0 || character.code >= kCodes || bytes[character.code] < 0) return std::nullopt;
    out += static_cast<char>(bytes[character.code]);
    text.remove_prefix(character.length);
  }
  return out;
}

}  // namespace weft::text
