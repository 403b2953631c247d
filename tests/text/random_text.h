// Texts of characters from all over Unicode, more often of the characters that patterns tell apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "base/utf8.h"

namespace weft::testing {

class RandomText {
 public:
  explicit RandomText(std::uint32_t seed) : engine_(seed) {}

  /// Up to `most` characters: letters of either case, digits, spaces, line ends, apostrophes, marks, anything.
  std::string text(std::size_t most) {
    std::string made;
    for (std::size_t left = below(most) + 1; left > 0; --left) append_character(made, code());
    return made;
  }
  /// Letters with marks that compose with them, and parts of Hangul.
  std::string marked_text(std::size_t most) {
    std::string made;
    for (std::size_t left = below(most) + 1; left > 0; --left) {
      constexpr std::array<std::array<std::uint32_t, 2>, 4> kRanges = {
          {{0x0300, 0x70}, {0x1100, 0x100}, {0xAC00, 0x100}, {0x0900, 0x500}}};
      const std::uint32_t kind = below(6);
      if (kind == 5) {
        append_character(made, "aeiouAEIOU \n"[below(12)]);
      } else {
        append_character(made, kind == 4 ? any() : kRanges.at(kind)[0] + below(kRanges.at(kind)[1]));
      }
    }
    return made;
  }
  std::uint32_t below(std::size_t limit) {
    return static_cast<std::uint32_t>(std::uniform_int_distribution<std::size_t>(0, limit - 1)(engine_));
  }

 private:
  std::uint32_t code() {
    constexpr std::array<std::uint32_t, 48> kTold = {
        'a',    's',  't',  'r',    'e',    'v',    'm',   'l',   'd',   'A',     'S',    'L',
        'E',    'Z',  '\'', '\'',   '\'',   ' ',    ' ',   ' ',   '\n',  '\n',    '\r',   '\t',
        '0',    '1',  '9',  '.',    '/',    '/',    '!',   '_',   0x17F, 0x301,   0x20D0, 0x4E2D,
        0x3000, 0x85, 0xA0, 0x2028, 0x180E, 0x200B, 0x1C5, 0x2B0, 0x660, 0x1F600, 0xE9,   0xC9};
    return below(8) == 0 ? any() : kTold[below(kTold.size())];
  }
  std::uint32_t any() {
    while (true) {
      const std::uint32_t made = below(2) == 0 ? below(0x3000) : below(0x110000);
      if (made < 0xD800 || made >= 0xE000) return made;
    }
  }

  std::mt19937 engine_;
};

}  // namespace weft::testing
