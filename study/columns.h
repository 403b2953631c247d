// The columns of an experiment's rows, each described once: its name in CSV and JSON, its heading and text in a table.
// Tables, CSV and JSON are written from one list of columns, and CSV is read by it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text/escape.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"

namespace weft::study {

/// A value in a file. Without one, a cell of CSV is empty, and JSON has null or no member.
struct Cell {
  std::string csv = {};
  std::optional<JsonValue> json = std::nullopt;

  Cell() = default;
  Cell(std::string text, JsonValue value) : csv(std::move(text)), json(std::move(value)) {}
  /// All digits that a number needs to be read back; a zero without a sign, which says nothing.
  template <class T>
  requires std::is_arithmetic_v<T> Cell(T value)
      : Cell(fmt::format("{}", value == T() ? T() : value), value == T() ? T() : value) {}
  /// None is no value.
  template <class T>
  Cell(const std::optional<T>& value) : Cell(value ? Cell(*value) : Cell()) {}
  template <std::convertible_to<std::string_view> T>
  Cell(const T& text) : Cell(std::string(text), std::string_view(text)) {}
};

/// Reads what Cell writes. False: it is something else, or a number below zero.
template <class T>
bool read_cell(const std::string& text, T& value) {
  if constexpr (std::same_as<T, std::string>) {
    value = text;
    return true;
  } else if constexpr (std::same_as<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= T(0);
  }
}

template <class Row>
struct Column {
  std::string csv = {}, json = {};  // its names in files; "": it isn't there
  bool figure = false;              // rows without a step have none
  std::function<Cell(const Row&)> value = {};
  std::function<bool(const std::string&, Row&)> read = {};  // none: it isn't read back
  TableColumn head = {};
  std::function<std::string(const Row&)> text = {};  // none: tables don't have it

  /// Adds it to tables.
  Column& shown(TableColumn heading, std::function<std::string(const Row&)> as) {
    head = std::move(heading);
    text = std::move(as);
    return *this;
  }
};

/// The text of a value in CSV.
struct AsInFiles {
  std::string operator()(const Cell& cell) const { return cell.csv; }
};

/// What JSON has where there is no value.
enum class Absent : std::uint8_t { null, left_out };

/// The rows of a text with a line of headings. Throws UserError naming `file`, and the fix, unless the headings are
/// `names`, and every row has as many cells.
std::vector<CsvRow> read_table(std::string_view text, const std::string& file, const CsvRow& names,
                               const std::string& fix);
[[noreturn]] void refuse_row(std::size_t number, const std::string& file, const CsvRow& names, const std::string& fix);
[[noreturn]] void refuse_all(std::size_t rows, std::string_view noun, const std::string& reason,
                             const std::string& fix);

template <class Row>
class Columns {
 public:
  /// A column of files, and of tables if it has a heading. `value`: a member, which is read back, or a function of the
  /// row. `format` makes the table's text of the value.
  template <class Value>
  Column<Row>& add(const std::string& name, Value value) {
    Column<Row>& column = list_.emplace_back();
    column.csv = column.json = name;
    column.value = [value](const Row& row) { return Cell(std::invoke(value, row)); };
    if constexpr (std::is_member_object_pointer_v<Value>) {
      column.read = [value](const std::string& text, Row& row) { return read_cell(text, row.*value); };
    }
    return column;
  }
  template <class Value, class Format = AsInFiles>
  Column<Row>& add(const std::string& name, Value value, TableColumn head, Format format = {}) {
    const auto text = [value, format](const Row& row) { return std::invoke(format, std::invoke(value, row)); };
    return add(name, value).shown(std::move(head), text);
  }
  /// The same of a figure, which rows that aren't possible() lack.
  template <class Value, class Format = AsInFiles>
  Column<Row>& figure(const std::string& name, Value value, TableColumn head = {}, Format format = {}) {
    Column<Row>& column = head.head.empty() ? add(name, value) : add(name, value, std::move(head), format);
    column.figure = true;
    return column;
  }
  /// A column of tables alone.
  void show(TableColumn head, std::function<std::string(const Row&)> text, bool figure = true) {
    list_.emplace_back().shown(std::move(head), std::move(text)).figure = figure;
  }

  CsvRow names() const {
    CsvRow names;
    for (const Column<Row>& column : list_) {
      if (!column.csv.empty()) names.push_back(column.csv);
    }
    return names;
  }
  CsvRow cells(const Row& row) const {
    CsvRow cells;
    for (const Column<Row>& column : list_) {
      if (!column.csv.empty()) cells.push_back(cell(column, row).csv);
    }
    return cells;
  }
  std::string csv(const auto& rows) const {
    std::string text = csv_line(names());
    for (const Row& row : rows) text += csv_line(cells(row));
    return text;
  }
  /// The rows of a text that csv() wrote. Throws UserError naming `file` on another text.
  std::vector<Row> read(std::string_view text, const std::string& file, const std::string& fix) const {
    std::vector<Row> rows;
    for (const CsvRow& cells : read_table(text, file, names(), fix)) {
      if (!read_row(cells, rows.emplace_back())) refuse_row(rows.size(), file, names(), fix);
    }
    return rows;
  }
  JsonArray json(const auto& rows, Absent absent = Absent::null) const {
    JsonArray list;
    for (const Row& row : rows) {
      JsonObject object;
      for (const Column<Row>& column : list_) {
        if (column.json.empty()) continue;
        const Cell value = cell(column, row);
        if (value.json || absent == Absent::null) object.add(column.json, value.json.value_or(nullptr));
      }
      list.add(object);
    }
    return list;
  }
  /// A line a row. One that isn't possible() has its reason, if there is one, in place of its figures.
  TextTable table(const auto& rows) const {
    TextTable table;
    for (const Column<Row>& column : list_) {
      if (column.text) table.columns.push_back(column.head);
    }
    for (const Row& row : rows) {
      std::vector<std::string>& cells = table.rows.emplace_back();
      for (const Column<Row>& column : list_) {
        if (!column.text) continue;
        if (column.figure && !is_possible(row)) {
          if constexpr (requires { row.reason; }) cells.push_back(row.reason);
          break;
        }
        cells.push_back(column.text(row));
      }
    }
    return table;
  }

 private:
  static bool is_possible(const Row& row) {
    if constexpr (requires { row.possible(); }) return row.possible();
    return true;
  }
  static Cell cell(const Column<Row>& column, const Row& row) {
    return column.figure && !is_possible(row) ? Cell() : column.value(row);
  }
  /// False if a cell can't be read, or if figures are there without a step.
  bool read_row(const CsvRow& cells, Row& row) const {
    bool read = true, figures = true, any = false;
    std::size_t i = 0;
    for (const Column<Row>& column : list_) {
      if (column.csv.empty()) continue;
      const std::string& cell = cells[i++];
      any = any || (column.figure && !cell.empty());
      if (column.read) (column.figure ? figures : read) &= column.read(cell, row);
    }
    return read && (is_possible(row) ? figures : !any);
  }

  std::vector<Column<Row>> list_;
};

/// Throws UserError with the first reason if no row has a step. `noun`: "rows".
template <class Row>
void expect_possible(std::span<const Row> rows, std::string_view noun, const std::string& fix) {
  if (std::ranges::any_of(rows, &Row::possible)) return;
  refuse_all(rows.size(), noun, rows.front().reason, fix);
}

/// Texts of figures in tables: "1.50 ms", "12.5 %", "3.00 MiB".
std::string ms_text(double ms);
std::string percent_text(double share);
std::string bytes_text(std::int64_t bytes);
/// "1.50 ms … 1.75 ms"
std::string ms_range_text(double low_ms, double high_ms);

}  // namespace weft::study
