// Text of any content in markup, scripts and tables of CSV, and bytes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The text with characters that a document may hold (XML 1.0, section 2.2): control characters but new lines become
/// spaces, U+FFFE and U+FFFF become U+FFFD.
std::string xml_characters(std::string_view text);

/// For SVG, HTML and Graphviz's HTML-like labels: xml_characters(), and & < > " become entities.
std::string xml_escaped(std::string_view text);

/// Equivalent JSON for a <script>: without `<`, which could end the script.
std::string script_escaped(std::string_view json);

/// Base64 by RFC 4648, with padding.
std::string base64(std::string_view bytes);

/// The bytes of such a text; nothing if it has another form.
std::optional<std::string> base64_decoded(std::string_view text);

/// CSV is by RFC 4180: a cell with a comma, a quote or a line's end stands in quotes. Lines end in "\n".
using CsvRow = std::vector<std::string>;

/// The cells as a line, with its end.
std::string csv_line(const CsvRow& cells);

/// The rows of a text, whose lines may end in "\n" or "\r\n". A last row without an end isn't complete, as a killed
/// writer leaves it, and is left out. nullopt: a quote stands where none may.
std::optional<std::vector<CsvRow>> read_csv(std::string_view text);

}  // namespace weft
