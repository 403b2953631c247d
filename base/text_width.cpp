#include "base/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace weft {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Combining marks, joiners, and the selectors of a character's text or emoji form.
constexpr std::array kNoColumn = {
    Range{0x0300, 0x036F}, Range{0x0483, 0x0489}, Range{0x0591, 0x05BD},   Range{0x0610, 0x061A},
    Range{0x064B, 0x065F}, Range{0x06D6, 0x06DC}, Range{0x093C, 0x093C},   Range{0x0941, 0x0948},
    Range{0x0E31, 0x0E31}, Range{0x0E34, 0x0E3A}, Range{0x0E47, 0x0E4E},   Range{0x1AB0, 0x1AFF},
    Range{0x1DC0, 0x1DFF}, Range{0x200B, 0x200D}, Range{0x20D0, 0x20FF},   Range{0x302A, 0x302D},
    Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}, Range{0x1F3FB, 0x1F3FF}, Range{0xE0100, 0xE01EF}};

// Wide and full-width (Unicode's annex 11), by blocks.
constexpr std::array kTwoColumns = {
    Range{0x1100, 0x115F},   Range{0x231A, 0x231B},   Range{0x23E9, 0x23EC},   Range{0x2614, 0x2615},
    Range{0x26A1, 0x26A1},   Range{0x2705, 0x2705},   Range{0x274C, 0x274C},   Range{0x2E80, 0x303E},
    Range{0x3041, 0x33FF},   Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},
    Range{0xA960, 0xA97F},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
    Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x16FE0, 0x18DFF}, Range{0x1AFF0, 0x1B2FF},
    Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x1FA70, 0x1FAFF},
    Range{0x20000, 0x2FFFD}, Range{0x30000, 0x3FFFD}};

template <std::size_t Count>
bool is_in(const std::array<Range, Count>& ranges, std::uint32_t code) {
  const auto after = std::ranges::upper_bound(ranges, code, {}, &Range::first);
  return after != ranges.begin() && code <= std::prev(after)->last;
}

std::size_t columns_of(std::uint32_t code) {
  return is_in(kNoColumn, code) ? 0 : is_in(kTwoColumns, code) ? 2 : 1;
}

/// Removes the first character, or a byte that isn't UTF-8, from `line`; returns its columns.
std::size_t take_first(std::string_view& line) {
  const Utf8Character character = first_character(line);
  line.remove_prefix(std::max<std::size_t>(1, character.length));
  return character.length == 0 ? 1 : columns_of(character.code);
}

}  // namespace

std::size_t text_width(std::string_view line) {
  std::size_t width = 0;
  while (!line.empty()) width += take_first(line);
  return width;
}

std::string cut_to_width(std::string_view line, std::size_t columns) {
  if (text_width(line) <= columns) return std::string(line);
  if (columns == 0) return "";
  std::string_view rest = line;
  std::size_t kept = 0;
  for (std::size_t width = 0; !rest.empty();) {
    width += take_first(rest);
    if (width + 1 > columns) break;
    kept = line.size() - rest.size();
  }
  return std::string(line.substr(0, kept)) + "…";
}

}  // namespace weft
