// Classes of Unicode characters, by which patterns cut text into pieces; their normal forms and lower case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::text {

/// Bits of a character's class. A character has one of them, a space among separators included.
enum CharClass : std::uint8_t {
  kUpper = 1,     // Lu, Lt
  kLower = 2,     // Ll
  kCaseless = 4,  // Lm, Lo
  kMark = 8,      // Mn, Mc, Me
  kNumber = 16,   // Nd, Nl, No
  kSpace = 32,    // White_Space, as \s has it
  kOther = 64,    // punctuation, symbols, controls, and what no character has
  kLetter = kUpper | kLower | kCaseless,
};

inline constexpr std::uint32_t kCodePoints = 0x110000;

/// One byte for each code point, from the tables of utf8proc. Made at the first call, in some milliseconds.
const std::uint8_t* class_table();

/// Bytes of white space at the begin and at the end of a text that is UTF-8.
std::size_t space_at_begin(std::string_view text);
std::size_t space_at_end(std::string_view text);

/// Whether the \w of Rust has the character: Alphabetic, marks, decimal digits, connectors and the two joiners.
bool is_word_character(std::uint32_t code);

struct Decoded {
  std::uint32_t code = 0;
  std::uint32_t length = 0;
};

/// The character at `at`, of text that is UTF-8: nothing is checked.
inline Decoded decode_valid(const char* at) {
  const auto byte = [at](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1FU) << 6 | (byte(1) & 0x3FU), 2};
  if (first < 0xF0) return {(first & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU), 3};
  return {(first & 7U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU), 4};
}

/// The character that ends before `at`, of text that is UTF-8 and begins before it.
inline Decoded decode_valid_before(const char* at) {
  const char* begin = at - 1;
  while ((static_cast<unsigned char>(*begin) & 0xC0U) == 0x80) --begin;
  return decode_valid(begin);
}

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text`, which is UTF-8, in a normal form. ASCII is copied without being composed.
std::string normalized(std::string_view text, NormalForm form);

/// Each character in lower case by itself, as Rust's char::to_lowercase does: no rules for languages and endings.
std::string lower_case(std::string_view text);

/// Without marks (Mn, Mc, Me), as the package `tokenizers` strips accents.
std::string without_accents(std::string_view text);

}  // namespace weft::text
