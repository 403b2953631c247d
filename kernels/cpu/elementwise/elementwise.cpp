// Add, scale, zero, cast, bias gradient and row selection; see elementwise.h.
#include "kernels/cpu/elementwise/elementwise.h"

#include <cstddef>
#include <cstring>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void add(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& out) {
  const auto piece = [](std::int64_t n, const auto* left, const auto* right, auto* sum) {
    transform(
        n, sum, [](Floats x, Floats y) { return x + y; }, left, right);
  };
  for_elements(workers, piece, a, b, out);
}

void scale(Workers& workers, const Matrix& x, float factor, const Matrix& out) {
  const auto piece = [=](std::int64_t n, const auto* from, auto* to) {
    transform(
        n, to, [=](Floats value) { return value * factor; }, from);
  };
  for_elements(workers, piece, x, out);
}

void zero(Workers& workers, const Matrix& out) {
  for_pieces(workers, out.rows, out.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
    const auto bytes = static_cast<std::int64_t>(size_of(out.dtype));
    auto* const first = static_cast<std::byte*>(out.data) + (row * out.row_stride + begin) * bytes;
    std::memset(first, 0, static_cast<std::size_t>(n * bytes));
  });
}

void cast(Workers& workers, const Matrix& x, const Matrix& out) {
  const auto views = common_shape(x, out);
  const auto from_type = [&]<class From>(std::type_identity<From>) {
    const auto to_type = [&]<class To>(std::type_identity<To>) {
      for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
        convert_rows(elements<From>(views[0], row) + begin, 0, 1, n, elements<To>(views[1], row) + begin, 0);
      });
    };
    with_element_type(to_type, out);
  };
  with_element_type(from_type, x);
}

void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    ColumnSums<T> sums(workers, dy.rows, dy.cols, 1);
    // Four rows at a time share one load and one store of the partial sums.
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      std::int64_t row = first;
      for (; row + 4 <= end; row += 4) {
        sums.add_to(
            partial, [](Floats a, Floats b, Floats c, Floats d) { return (a + b) + (c + d); }, elements<T>(dy, row),
            elements<T>(dy, row + 1), elements<T>(dy, row + 2), elements<T>(dy, row + 3));
      }
      for (; row < end; ++row)
        sums.add_to(
            partial, [](Floats a) { return a; }, elements<T>(dy, row));
    });
    sums.combine(0, db.f32(), accumulate);
  };
  with_element_type(run, dy);
}

Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, 1);
}

void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out) {
  const std::int64_t row = (index % x.rows + x.rows) % x.rows;
  const auto copy = [&]<class From>(std::type_identity<From>) {
    const auto into = [&]<class To>(std::type_identity<To>) {
      convert_rows(elements<From>(x, row), 0, 1, x.cols, elements<To>(out), 0);
    };
    with_element_type(into, out);
  };
  workers.run(1, [&](std::int64_t) { with_element_type(copy, x); });
}

}  // namespace weft::cpu
