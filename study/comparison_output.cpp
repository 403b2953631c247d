#include "study/comparison_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/json_file.h"
#include "base/text/csv.h"
#include "study/comparison_folder.h"

namespace weft::study {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;  // by heading

/// The heading of a number: shares have no unit in JSON, but a table's reader expects to see what the number is.
std::string heading_of(const std::string& parent, const std::string& key) {
  if (parent == "bounds_ms") return key + "_bound_ms";
  const bool is_share = key == "gap" || key == "hidden" || key == "overlap" || key == "simulated_error";
  return (parent.empty() || parent == "channels" ? "" : parent + "_") + key + (is_share ? "_fraction" : "");
}

/// The text of a cell for a value of JSON.
std::string cell_of(const std::string& json) {
  if (json == "null") return "";
  return json.starts_with('"') ? read_json(json, "a cell").root().text() : json;
}

void flatten(std::string_view object, const std::string& parent, Cells& cells) {
  for (const auto& [key, value] : json_members(object)) {
    const std::string heading = heading_of(parent, key);
    if (value.starts_with('{')) {
      flatten(value, key == "bounds_ms" || key == "channels" ? key : heading, cells);
    } else {
      cells.emplace_back(heading, cell_of(value));
    }
  }
}

}  // namespace

ComparisonFile comparison_file_of(const std::string& output) {
  const std::filesystem::path path = output;
  if (names_folder(path)) return ComparisonFile::folder;
  if (written_at_once(path)) return ComparisonFile::as_printed;
  const std::string ending = path.extension().string();
  if (ending == ".csv") return ComparisonFile::csv;
  if (ending == ".md") return ComparisonFile::markdown;
  if (ending == ".json") return ComparisonFile::json;
  throw UserError(fmt::format("the format of {} is unknown", output),
                  "a file that ends in .csv, .md or .json, or a folder, whose name has no ending", "-o policies.csv");
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<std::string> headings;
  std::vector<Cells> rows;
  for (const JsonObject& entry : policies_json(comparison)) {
    flatten(entry.text(), "", rows.emplace_back());
    // A heading that is new stands after the one before it in its row.
    auto after = headings.begin();
    for (const auto& [heading, value] : rows.back()) {
      const auto known = std::ranges::find(headings, heading);
      after = std::next(known == headings.end() ? headings.insert(after, heading) : known);
    }
  }
  std::string text = csv_line(headings);
  for (const Cells& row : rows) {
    CsvRow cells;
    for (const std::string& heading : headings) {
      const auto cell = std::ranges::find(row, heading, &Cells::value_type::first);
      cells.push_back(cell == row.end() ? "" : cell->second);
    }
    text += csv_line(cells);
  }
  return text;
}

std::string comparison_file(const Comparison& comparison, ComparisonFile format) {
  switch (format) {
    case ComparisonFile::csv:
      return comparison_csv(comparison);
    case ComparisonFile::markdown:
      return comparison_text(comparison, TableStyle::markdown);
    case ComparisonFile::json:
      return indented_json(comparison_json(comparison).text(), 1) + "\n";
    case ComparisonFile::folder:
    case ComparisonFile::as_printed:
      break;
  }
  throw std::logic_error("a comparison isn't a file of that format");
}

}  // namespace weft::study
