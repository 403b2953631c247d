// Add, bias gradient and row selection; see elementwise.h.
#include "kernels/cpu/elementwise.h"

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void add(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& out) {
  const auto views = common_shape(a, b, out);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* left = elements<T>(views[0], row) + begin;
      const T* right = elements<T>(views[1], row) + begin;
      T* total = elements<T>(views[2], row) + begin;
      for_vectors(
          n, [&](std::int64_t i, auto lanes) { lanes.store(total + i, lanes.load(left + i) + lanes.load(right + i)); });
    });
  };
  with_element_type(run, a, b, out);
}

void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    ColumnSums sums(workers, dy.rows, dy.cols, 1);
    sums.accumulate([&](std::int64_t row, float* partial) {
      const T* dout = elements<T>(dy, row);
      for_vectors(dy.cols, [&](std::int64_t i, auto lanes) {
        lanes.store(partial + i, lanes.load(partial + i) + lanes.load(dout + i));
      });
    });
    sums.combine(0, db.f32(), accumulate);
  };
  with_element_type(run, dy);
}

Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols) {
  return ColumnSums::scratch(rows, cols, 1);
}

void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out) {
  const std::int64_t row = (index % x.rows + x.rows) % x.rows;
  const auto copy = [&]<class From>(std::type_identity<From>) {
    const auto into = [&]<class To>(std::type_identity<To>) {
      const From* from = elements<From>(x, row);
      To* to = elements<To>(out);
      for_vectors(x.cols, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(from + i)); });
    };
    with_element_type(into, out);
  };
  workers.run(1, [&](std::int64_t) { with_element_type(copy, x); });
}

}  // namespace weft::cpu
