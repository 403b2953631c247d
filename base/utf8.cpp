#include "base/utf8.h"

#include <algorithm>

namespace weft {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Bytes of a character whose first byte is `first`; 0 if no character begins with it.
std::size_t length_by(unsigned first) {
  return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/// Whether the code has its shortest encoding, isn't half of a surrogate pair, and is within Unicode.
bool is_character(std::uint32_t code, std::size_t length) {
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return !overlong && (code < 0xD800 || code >= 0xE000) && code <= 0x10FFFF;
}

bool goes_on(unsigned byte) {
  return (byte & 0xC0U) == 0x80;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const unsigned first = byte_at(text, 0);
  const std::size_t length = length_by(first);
  if (length == 0 || length > text.size()) return {};
  std::uint32_t code = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!goes_on(byte_at(text, i))) return {};
    code = code << 6 | (byte_at(text, i) & 0x3FU);
  }
  return is_character(code, length) ? Utf8Character{code, length} : Utf8Character{};
}

bool breaks_off(std::string_view text) {
  if (text.empty() || length_by(byte_at(text, 0)) <= text.size()) return false;
  return std::all_of(text.begin() + 1, text.end(), [](char c) { return goes_on(static_cast<unsigned char>(c)); });
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_character(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string utf8_or_ascii(std::string text) {
  if (is_utf8(text)) return text;
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return text;
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

void append_character(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

}  // namespace weft
