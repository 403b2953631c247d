#include "base/text/text_table.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/utf8.h"

namespace weft {
namespace {

constexpr std::string_view kGap = "  ";

/// The columns that are shown, each with its width.
struct Shown {
  std::size_t column = 0, width = 0;
};

std::size_t width_of(const std::vector<Shown>& shown) {
  std::size_t sum = 0;
  for (const Shown& each : shown) sum += each.width;
  return shown.empty() ? 0 : sum + kGap.size() * (shown.size() - 1);
}

std::vector<Shown> all_columns(const TextTable& table) {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = table.heads ? text_width(table.columns[i].head) : 0;
    for (const std::vector<std::string>& row : table.rows) {
      const bool spans = row.size() < table.columns.size() && i + 1 == row.size();  // takes the rest of its line
      if (i < row.size() && !spans) width = std::max(width, text_width(row[i]));
    }
    shown.push_back({i, width});
  }
  return shown;
}

/// Cuts words, the longest first, until the table fits or none can be cut any more.
void cut_words(const TextTable& table, std::vector<Shown>& shown, std::size_t width) {
  while (width_of(shown) > width) {
    Shown* longest = nullptr;
    for (Shown& each : shown) {
      const std::size_t least = table.columns[each.column].least;
      if (least == 0 || each.width <= least) continue;
      if (longest == nullptr || each.width > longest->width) longest = &each;
    }
    if (longest == nullptr) return;
    --longest->width;
  }
}

std::vector<Shown> fitting_columns(const TextTable& table, std::optional<std::size_t> width) {
  std::vector<Shown> shown = all_columns(table);
  if (!width) return shown;
  for (;;) {
    std::vector<Shown> cut = shown;
    cut_words(table, cut, *width);
    // The last of the columns with the greatest rank.
    const auto least = std::ranges::max_element(shown.rbegin(), shown.rend(), {},
                                                [&](const Shown& each) { return table.columns[each.column].rank; });
    if (width_of(cut) <= *width || table.columns[least->column].rank == 0) return cut;
    shown.erase(std::next(least).base());
  }
}

std::string aligned(const std::string& text, std::size_t width, bool words, bool last) {
  const std::string cell = cut_to_width(text, width);
  const std::string space(width - text_width(cell), ' ');
  return words ? cell + (last ? "" : space) : space + cell;
}

class Lines {
 public:
  Lines(const TextTable& table, std::vector<Shown> shown, std::optional<std::size_t> width)
      : table_(table), shown_(std::move(shown)), width_(width) {}

  StyledText text() && {
    if (table_.heads) {
      for (std::size_t i = 0; i < shown_.size(); ++i) {
        const TableColumn& column = table_.columns[shown_[i].column];
        cell(column.head, i, column.words, Emphasis::heading);
      }
      text_.add("\n");
    }
    for (std::size_t r = 0; r < table_.rows.size(); ++r) row(table_.rows[r], table_.best == r);
    return std::move(text_);
  }

 private:
  void cell(const std::string& text, std::size_t i, bool words, Emphasis emphasis) {
    if (i > 0) text_.add(kGap);
    text_.add(aligned(text, shown_[i].width, words, i + 1 == shown_.size()), text.empty() ? Emphasis::none : emphasis);
  }

  void row(const std::vector<std::string>& cells, bool best) {
    const bool spans = cells.size() < table_.columns.size();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const std::size_t column = shown_[i].column;
      if (spans && column + 1 >= cells.size()) break;
      const TableColumn& of = table_.columns[column];
      cell(cells[column], i, of.words, best ? Emphasis::good : of.emphasis);
      begin += shown_[i].width + kGap.size();
    }
    if (spans) {
      rest_of_line(cells.back(), begin);
    } else {
      text_.add("\n");
    }
  }

  void rest_of_line(const std::string& text, std::size_t begin) {
    constexpr std::size_t kLeast = 20;  // a narrower column of words is worse to read than a line that is too long
    const std::size_t room = !width_ ? SIZE_MAX : std::max(kLeast, *width_ - std::min(*width_, begin));
    if (text.empty()) text_.add("\n");
    bool first = true;
    for (const std::string& line : wrap(text, room)) {
      if (first && begin > 0) text_.add(kGap);
      text_.add((first ? "" : std::string(begin, ' ')) + line + "\n");
      first = false;
    }
  }

  const TextTable& table_;
  const std::vector<Shown> shown_;
  const std::optional<std::size_t> width_;
  StyledText text_;
};

std::optional<std::size_t> width_of(const Terminal& terminal) {
  constexpr int kMost = 120;  // longer lines are hard to read
  if (!terminal.is_terminal) return std::nullopt;
  return static_cast<std::size_t>(std::min(terminal.columns, kMost));
}

/// For a cell between bars.
std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

StyledText table_text(const TextTable& table, std::optional<std::size_t> width) {
  TextTable lines = table;  // names out of files may have new lines and control characters
  for (std::vector<std::string>& row : lines.rows) {
    for (std::string& cell : row) cell = printable_line(cell);
  }
  const std::vector<Shown> shown = fitting_columns(lines, width);
  std::vector<std::string> left_out;
  for (std::size_t i = 0; i < lines.columns.size(); ++i) {
    if (std::ranges::find(shown, i, &Shown::column) == shown.end()) left_out.push_back(lines.columns[i].head);
  }
  StyledText text = Lines(lines, shown, width).text();
  if (left_out.empty()) return text;
  for (const std::string& line : wrap("(not shown in this width: " + join(left_out) + ")", *width)) {
    text.add(line + "\n");
  }
  return text;
}

std::string table_markdown(const TextTable& table) {
  const std::vector<Shown> shown = all_columns(table);
  std::string text = "|", rule = "|";
  for (const Shown& each : shown) {
    const TableColumn& column = table.columns[each.column];
    text += " " + aligned(markdown_cell(column.head), each.width, column.words, false) + " |";
    rule += column.words ? "---|" : "--:|";
  }
  text += "\n" + rule + "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += "|";
    for (const Shown& each : shown) {
      const std::string cell = each.column < row.size() ? markdown_cell(printable_line(row[each.column])) : "";
      text +=
          " " + aligned(cell, std::max(each.width, text_width(cell)), table.columns[each.column].words, false) + " |";
    }
    text += "\n";
  }
  return text;
}

std::optional<std::size_t> output_width() {
  return width_of(terminal_of(stdout));
}

std::optional<std::size_t> told_width() {
  return width_of(terminal_of(stderr));
}

}  // namespace weft
