// Tables as CSV, by RFC 4180: a cell with a comma, a quote or a line's end stands in quotes. Lines end in "\n".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

using CsvRow = std::vector<std::string>;

/// The cells as a line, with its end.
std::string csv_line(const CsvRow& cells);

/// The rows of a text, whose lines may end in "\n" or "\r\n". A last row without an end isn't complete, as a killed
/// writer leaves it, and is left out. nullopt: a quote stands where none may.
std::optional<std::vector<CsvRow>> read_csv(std::string_view text);

}  // namespace weft
