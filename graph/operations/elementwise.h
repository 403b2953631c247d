// Elementwise operations: activations, sums, dropout and casts; and copies of parts of a matrix: a window of columns,
// or a row.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

inline constexpr double kGeluFlops = 12, kGeluGradientFlops = 20;  // for each element

/// tanh-approximated GELU.
struct GeluForward : ElementCount {
  static constexpr std::string_view kind = "gelu";
  constexpr auto arguments() const {
    return std::array{reads("x", any_shape(n), kFloat), writes("y", any_shape(n), same_as("x"))};
  }
  constexpr Work work(double element_bytes) const { return each(n, kGeluFlops, 2 * element_bytes); }
};

struct GeluBackward : ElementCount {
  static constexpr std::string_view kind = "gelu_backward";
  constexpr auto arguments() const {
    return std::array{
        reads("x", any_shape(n), kFloat),
        reads("dy", any_shape(n), same_as("x")),
        writes("dx", any_shape(n), same_as("x")),
    };
  }
  constexpr Work work(double element_bytes) const { return each(n, kGeluGradientFlops, 3 * element_bytes); }
};

/// All rows, or with `groups` those of a grouped product's groups: from offsets[groups] on they stay, and work is
/// counted for `expected` rows.
struct RowsOfGroups : MatrixSize {
  std::int64_t groups = 0, expected = 0;

  static constexpr auto fields() {
    return std::tuple_cat(MatrixSize::fields(), std::tuple{field("groups", &RowsOfGroups::groups).told_if_set(),
                                                           field("expected", &RowsOfGroups::expected).told_if_set()});
  }
  constexpr std::int64_t used_rows() const { return groups > 0 ? expected : rows; }
  constexpr ArgumentSchema offsets() const { return reads("offsets", {groups + 1}, DType::i32).when(groups > 0); }
};

/// y = act(gate)·up; a row of the input is [gate | up]. act is silu (SwiGLU) or tanh-approximated GELU (GeGLU).
template <bool kGelu>
struct GatedForward : RowsOfGroups {
  static constexpr std::string_view kind = kGelu ? "geglu" : "swiglu";
  constexpr auto arguments() const {
    return std::array{reads("x", {rows, 2 * cols}, kFloat), writes("y", {rows, cols}, same_as("x")), offsets()};
  }
  constexpr Work work(double element_bytes) const {
    return each(used_rows() * cols, kGelu ? kGeluFlops + 1 : 10, 3 * element_bytes);
  }
};
using SwiGluForward = GatedForward<false>;
using GeGluForward = GatedForward<true>;

template <bool kGelu>
struct GatedBackward : RowsOfGroups {
  static constexpr std::string_view kind = kGelu ? "geglu_backward" : "swiglu_backward";
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, 2 * cols}, kFloat),
        reads("dy", {rows, cols}, same_as("x")),
        writes("dx", {rows, 2 * cols}, same_as("x")),
        offsets(),
    };
  }
  constexpr Work work(double element_bytes) const {
    return each(used_rows() * cols, kGelu ? kGeluFlops + kGeluGradientFlops : 18, 5 * element_bytes);
  }
};
using SwiGluBackward = GatedBackward<false>;
using GeGluBackward = GatedBackward<true>;

/// out = a + b.
struct Add : ElementCount {
  static constexpr std::string_view kind = "add";
  constexpr auto arguments() const {
    return std::array{
        reads("a", any_shape(n), kFloat),
        reads("b", any_shape(n), same_as("a")),
        writes("out", any_shape(n), same_as("a")),
    };
  }
  constexpr Work work(double element_bytes) const { return each(n, 1, 3 * element_bytes); }
};

/// out = factor · x.
struct Scale {
  std::int64_t n;
  float factor;

  static constexpr std::string_view kind = "scale";
  static constexpr auto fields() { return std::tuple{field("n", &Scale::n), field("factor", &Scale::factor)}; }
  constexpr auto arguments() const {
    return std::array{reads("x", any_shape(n), kFloat), writes("out", any_shape(n), same_as("x"))};
  }
  constexpr Work work(double element_bytes) const { return each(n, 1, 2 * element_bytes); }
};

/// out = x + value.
struct AddConstant {
  std::int64_t n;
  float value;

  static constexpr std::string_view kind = "add_constant";
  static constexpr auto fields() {
    return std::tuple{field("n", &AddConstant::n), field("value", &AddConstant::value)};
  }
  constexpr auto arguments() const {
    return std::array{reads("x", any_shape(n), kFloat), writes("out", any_shape(n), same_as("x"))};
  }
  constexpr Work work(double element_bytes) const { return each(n, 1, 2 * element_bytes); }
};

/// out = 0.
struct Zero : ElementCount {
  static constexpr std::string_view kind = "zero";
  constexpr auto arguments() const { return std::array{writes("out", any_shape(n), kFloat)}; }
  constexpr Work work(double element_bytes) const { return {0, element_bytes * as_double(n)}; }
};

/// out = x converted to the other dtype, rounded to nearest even.
struct Cast : ElementCount {
  static constexpr std::string_view kind = "cast";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{reads("x", any_shape(n), kFloat), writes("out", any_shape(n), kFloat)};
  }
  constexpr Work work(double /*element_bytes*/) const { return each(n, 1, 6); }
};

/// y = x·mask/(1−p) (+ residual). The mask is Philox(seed, step, site, global element), so forward and backward are the
/// same operation. The global element is (row_base + row_offset + row)·cols·parts + coordinate·cols + col; the
/// coordinate is 0 if rows aren't divided. random = {seed, step, row_base}.
///
/// With `seq`, the matrix has `seq` rows, which divide `stride`, of each sequence of `stride` rows: the first of them
/// stands at a multiple of `seq`, and row_base + row_offset is the global row of the matrix's first.
struct Dropout {
  std::int64_t rows, cols, row_offset;
  float p;
  std::uint32_t site;
  bool residual = false;
  std::int64_t parts = 1;
  std::int64_t seq = 0, stride = 0;

  static constexpr std::string_view kind = "dropout";
  static constexpr auto fields() {
    return std::tuple{field("rows", &Dropout::rows),
                      field("cols", &Dropout::cols),
                      field("row_offset", &Dropout::row_offset).free_of_cost(),
                      field("p", &Dropout::p),
                      field("site", &Dropout::site).free_of_cost(),
                      field("residual", &Dropout::residual),
                      field("parts", &Dropout::parts),
                      field("seq", &Dropout::seq).told_if_set().free_of_cost(),
                      field("stride", &Dropout::stride).told_if_set().free_of_cost()};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("random", {3}, DType::i64),
        writes("y", {rows, cols}, same_as("x")),
        reads("residual", {rows, cols}, same_as("x")).when(residual),
        reads("coordinate", {1}, DType::i64).when(parts > 1),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, 30, (residual ? 3 : 2) * element_bytes); }
};

using ElementwiseOperations = OperationList<GeluForward, GeluBackward, SwiGluForward, SwiGluBackward, Add, Scale, Zero,
                                            Cast, Dropout, GeGluForward, GeGluBackward, AddConstant>;

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

/// The adjoint of TakeColumns: x in its window of out, zero in the other windows. `accumulate`: x is added to its
/// window, and the others stay.
struct PutColumns : ColumnWindows {
  bool accumulate = false;

  static constexpr std::string_view kind = "put_columns";
  static constexpr KindClass kind_class = KindClass::copy;
  static constexpr auto fields() {
    return std::tuple_cat(ColumnWindows::fields(),
                          std::tuple{field("accumulate", &PutColumns::accumulate).told_if_set()});
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("coordinate", {1}, DType::i64),
        writes("out", {rows, windows * cols}, same_as("x")).updated_when(accumulate),
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
