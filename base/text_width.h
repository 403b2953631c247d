// The width of a text in columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Columns of a line of UTF-8: two for East Asian characters and emoji, none for combining marks, one for others. Pass
/// printable text: control characters and bytes that aren't UTF-8 count as one.
std::size_t text_width(std::string_view line);

/// `line` if it takes at most `columns` columns, else its beginning and "…".
std::string cut_to_width(std::string_view line, std::size_t columns);

}  // namespace weft
