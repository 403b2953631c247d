#include "base/text/csv.h"

#include <utility>

namespace weft {
namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string csv_line(const CsvRow& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_cell(cells[i]);
  return line + "\n";
}

std::optional<std::vector<CsvRow>> read_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool quoted = false, closed = false;  // within quotes; after them
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += text[++i];
      } else {
        quoted = false, closed = true;
      }
      continue;
    }
    const bool line_end = c == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (line_end) continue;
    if (c == ',' || c == '\n') {
      row.push_back(std::exchange(cell, {}));
      closed = false;
      if (c == '\n') rows.push_back(std::exchange(row, {}));
    } else if (c == '"') {
      if (!cell.empty() || closed) return std::nullopt;
      quoted = true;
    } else {
      if (closed) return std::nullopt;
      cell += c;
    }
  }
  return rows;
}

}  // namespace weft
