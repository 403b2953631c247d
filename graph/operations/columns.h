// Parts of a matrix: a window of columns, or a row.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

struct ColumnWindows {
  std::int64_t rows, cols, windows, ranks_per_window;

  static constexpr auto fields() {
    return std::tuple{field("rows", &ColumnWindows::rows), field("cols", &ColumnWindows::cols),
                      field("windows", &ColumnWindows::windows),
                      field("ranks_per_window", &ColumnWindows::ranks_per_window)};
  }
};

/// Takes window ⌊coordinate / ranks_per_window⌋ of x, which consists of `windows` windows of `cols` columns.
struct TakeColumns : ColumnWindows {
  static constexpr std::string_view kind = "take_columns";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, windows * cols}, kFloat),
        reads("coordinate", {1}, DType::i64),
        writes("out", {rows, cols}, same_as("x")),
    };
  }
  constexpr Work work(double element_bytes) const { return {0, 2 * element_bytes * as_double(rows * cols)}; }
};

/// The adjoint of TakeColumns: x in its window of out, zero in the other windows.
struct PutColumns : ColumnWindows {
  static constexpr std::string_view kind = "put_columns";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("coordinate", {1}, DType::i64),
        writes("out", {rows, windows * cols}, same_as("x")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {0, element_bytes * as_double(rows * cols * (1 + windows))};
  }
};

/// Takes row `index mod rows` of x.
struct SelectRow : MatrixSize {
  static constexpr std::string_view kind = "select_row";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("index", {1}, DType::i64),
        writes("out", {cols}, kFloat),
    };
  }
  constexpr Work work(double element_bytes) const { return {0, 2 * element_bytes * as_double(cols)}; }
};

using ColumnOperations = OperationList<TakeColumns, PutColumns, SelectRow>;

}  // namespace weft::graph
