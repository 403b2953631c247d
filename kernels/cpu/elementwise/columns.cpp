// Biases and windows of columns; see columns.h.
#include "kernels/cpu/elementwise/columns.h"

#include <fmt/format.h>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// The first column of the window.
std::int64_t window_begin(std::int64_t window, std::int64_t cols, std::int64_t wide) {
  if (window < 0 || (window + 1) * cols > wide) {
    throw std::logic_error(fmt::format("window {} of {} columns is outside {} columns", window, cols, wide));
  }
  return window * cols;
}

}  // namespace

void add_bias(Workers& workers, const Matrix& y, const Matrix& bias) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      T* to = elements<T>(y, row) + begin;
      const T* b = elements<T>(bias) + begin;
      for_vectors(n, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(to + i) + lanes.load(b + i)); });
    });
  };
  with_element_type(run, y, bias);
}

void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out) {
  const std::int64_t first = window_begin(window, out.cols, x.cols);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, out.rows, out.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      std::copy_n(elements<T>(x, row) + first + begin, n, elements<T>(out, row) + begin);
    });
  };
  with_element_type(run, x, out);
}

void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out) {
  const std::int64_t first = window_begin(window, x.cols, out.cols);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_rows(workers, out.rows, out.cols, [&](std::int64_t row) {
      T* to = elements<T>(out, row);
      std::fill_n(to, first, T(0.0F));
      std::copy_n(elements<T>(x, row), x.cols, to + first);
      std::fill(to + first + x.cols, to + out.cols, T(0.0F));
    });
  };
  with_element_type(run, x, out);
}

}  // namespace weft::cpu
