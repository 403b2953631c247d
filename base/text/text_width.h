// How many columns of a terminal a text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Columns of a line of UTF-8: two for characters of East Asia and for pictures, none for marks that are put on the
/// character before, one for others. Made printable before: control characters and wrong bytes count as one.
std::size_t text_width(std::string_view line);

/// `line` if it takes at most so many columns, else its beginning and "…".
std::string cut_to_width(std::string_view line, std::size_t columns);

}  // namespace weft
