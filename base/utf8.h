// Characters of UTF-8 (RFC 3629), one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace weft
