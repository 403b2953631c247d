// Breaks text into lines for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// `text` in lines of at most `columns` columns, broken at spaces. A word that is longer has a line of its own. The
/// text's own line breaks stay. An empty text has no lines.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

}  // namespace weft
