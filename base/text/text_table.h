// Tables of text: aligned columns for people, as wide as their terminal, and the same table in Markdown.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"

namespace weft {

struct TableColumn {
  std::string head = {};
  bool words = false;      // words are left-aligned, numbers right-aligned
  std::size_t least = 0;   // the width that words may be cut to, with "…" at the end; 0: never cut
  int rank = 0;            // a narrow terminal leaves out the columns of the greatest rank first; 0: never left out
  Emphasis emphasis = {};  // of its cells
};

/// A row with fewer cells than columns: its last cell takes the rest of the line, and continues on further lines if it
/// is too long for a terminal.
struct TextTable {
  std::vector<TableColumn> columns = {};
  std::vector<std::vector<std::string>> rows = {};
  std::optional<std::size_t> best = {};  // the row to emphasize
  bool heads = true;                     // with a line of headings
};

/// In at most `width` columns, if there is a width and the table can be made so narrow: words are cut, then columns are
/// left out, which a last line names. Numbers are never cut.
StyledText table_text(const TextTable& table, std::optional<std::size_t> width = std::nullopt);

/// A table of GitHub's Markdown, with all columns.
std::string table_markdown(const TextTable& table);

/// The width of standard output if that is a terminal.
std::optional<std::size_t> output_width();

/// The same of standard error, which gets the text of tell().
std::optional<std::size_t> told_width();

}  // namespace weft
