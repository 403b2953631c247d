// Characters of UTF-8 (RFC 3629), one after the other; the width of a text in columns of a terminal, and lines of a
// width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Utf8Character {
  std::uint32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: no character
};

/// The character that `text` begins with; none if `text` is empty, isn't UTF-8 or breaks off.
Utf8Character first_character(std::string_view text);

/// Whether `text` begins with an incomplete character that more bytes could complete.
bool breaks_off(std::string_view text);

bool is_utf8(std::string_view text);

/// `text` if it is UTF-8. If not, its copy in `storage`, in which each incomplete or wrong sequence is U+FFFD: one for
/// the longest beginning of a character, as Unicode recommends and as Python's errors="replace" does.
std::string_view valid_utf8(std::string_view text, std::string& storage);

/// `text`; if it isn't UTF-8, with '?' in place of each byte that isn't ASCII.
std::string utf8_or_ascii(std::string text);

/// With ASCII's letters in lower case.
std::string lower_ascii(std::string_view text);

void append_character(std::string& text, std::uint32_t code);

/// Columns of a line of UTF-8: two for East Asian characters and emoji, none for combining marks, one for others. Pass
/// printable text: control characters have no columns; bytes that aren't UTF-8 count as one.
std::size_t text_width(std::string_view line);

/// `line` if it takes at most `columns` columns, else its beginning and "…".
std::string cut_to_width(std::string_view line, std::size_t columns);

/// `text` in lines of at most `columns` columns, broken at spaces. A word that is longer has a line of its own. The
/// text's own line breaks stay. An empty text has no lines.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

}  // namespace weft
