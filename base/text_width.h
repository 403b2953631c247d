// The width of a text in columns of a terminal, and lines of a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Columns of a line of UTF-8: two for East Asian characters and emoji, none for combining marks, one for others. Pass
/// printable text: control characters have no columns; bytes that aren't UTF-8 count as one.
std::size_t text_width(std::string_view line);

/// `line` if it takes at most `columns` columns, else its beginning and "…".
std::string cut_to_width(std::string_view line, std::size_t columns);

/// `text` in lines of at most `columns` columns, broken at spaces. A word that is longer has a line of its own. The
/// text's own line breaks stay. An empty text has no lines.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

}  // namespace weft
