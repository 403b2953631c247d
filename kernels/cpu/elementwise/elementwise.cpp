// Small kernels; see elementwise.h.
#include "kernels/cpu/elementwise/elementwise.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/bf16_table.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

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

void add_constant(Workers& workers, const Matrix& x, float value, const Matrix& out) {
  const auto piece = [=](std::int64_t n, const auto* from, auto* to) {
    transform(
        n, to, [=](Floats of_x) { return of_x + value; }, from);
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
  with_element_type(x.dtype, [&]<class From>(std::type_identity<From>) {
    with_element_type(out.dtype, [&]<class To>(std::type_identity<To>) {
      for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
        convert_rows(elements<From>(views[0], row) + begin, 0, 1, n, elements<To>(views[1], row) + begin, 0);
      });
    });
  });
}

void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate) {
  with_element_type(dy.dtype, [&]<class T>(std::type_identity<T>) {
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
  });
}

Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, 1);
}

void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out) {
  const std::int64_t row = (index % x.rows + x.rows) % x.rows;
  workers.run(1, [&](std::int64_t) {
    with_element_type(x.dtype, [&]<class From>(std::type_identity<From>) {
      with_element_type(out.dtype, [&]<class To>(std::type_identity<To>) {
        convert_rows(elements<From>(x, row), 0, 1, x.cols, elements<To>(out), 0);
      });
    });
  });
}

namespace {

constexpr float kCubic = 0.044715F;
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2·√(2/π)
constexpr float kScale = -kTwoRootTwoOverPi * kLog2e;

// ½(1 + tanh u) is 1/(1 + e⁻²ᵘ): one exponential, no cancellation. This function returns −2u·log₂e divided by x.
[[gnu::always_inline]] inline Floats gelu_slope(Floats x_squared) {
  return kScale + (kScale * kCubic) * x_squared;
}

// Beyond these bounds the gate is 0 or 1 to fp32's last bit. At the lower bound the exponent is 128, where the gate is
// 0; at the upper bound it is above −126. The bounds also keep x³ from overflowing into inf·0.
[[gnu::always_inline]] inline Floats gelu_bounded(Floats x) {
  return at_least(at_most(x, 9.9F), -10.0607F);
}

[[gnu::always_inline]] inline Floats gelu(Floats x) {
  const Floats bounded = gelu_bounded(x);
  return over_one_plus_exp2_of(x, bounded, gelu_slope(bounded * bounded));
}

[[gnu::always_inline]] inline Floats gelu_derivative(Floats x) {
  x = gelu_bounded(x);
  const Floats x_squared = x * x;
  const Floats gate = over_one_plus_exp2_of(broadcast(1.0F), x, gelu_slope(x_squared));
  const Floats gated = x * gate, of_exponent = kTwoRootTwoOverPi + (3.0F * kCubic * kTwoRootTwoOverPi) * x_squared;
  return gate + multiply_add(-gated, gate, gated) * of_exponent;
}

// Output elements are fetched this far ahead while arguments are looked up: the CPU predicts reads better than writes.
constexpr std::int64_t kAhead = 512;

}  // namespace

void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto piece = []<class T>(std::int64_t n, const T* in, T* out) {
    transform(
        n, out, [](Floats v) { return v; }, mapped<gelu>(Fetching<T>{in, out + kAhead}));
  };
  for_elements(workers, piece, x, y);
}

void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto piece = []<class T>(std::int64_t n, const T* in, const T* dout, T* out) {
    transform(
        n, out, [](Floats slope, Floats d) { return d * slope; }, mapped<gelu_derivative>(in), dout);
  };
  for_elements(workers, piece, x, dy, dx);
}

void geglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  with_element_type(common_dtype(x, y), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + y.cols;
      T* out = elements<T>(y, row) + begin;
      transform(
          n, out, [](Floats g, Floats u) { return g * u; }, mapped<gelu>(Fetching<T>{gate, out + kAhead}),
          Fetching<T>{up, up + x.row_stride});
    });
  });
}

void geglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  with_element_type(common_dtype(x, dy, dx), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, dy.rows, dy.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + dy.cols;
      const T* d = elements<T>(dy, row) + begin;
      T* dgate = elements<T>(dx, row) + begin;
      const auto gradients = [](Floats g, Floats slope, Floats u, Floats dout) {
        return std::array{dout * u * slope, dout * g};
      };
      transform<2, T>(n, {dgate, dgate + dy.cols}, gradients, mapped<gelu>(gate), mapped<gelu_derivative>(gate),
                      Fetching<T>{up, up + x.row_stride}, Fetching<T>{d, d + dy.row_stride});
    });
  });
}

void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  with_element_type(common_dtype(x, y), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + y.cols;
      T* out = elements<T>(y, row) + begin;
      transform(
          n, out, [](Floats g, Floats s, Floats u) { return g * s * u; }, Fetching<T>{gate, gate + x.row_stride},
          mapped<logistic>(Fetching<T>{gate, out + kAhead}), Fetching<T>{up, up + x.row_stride});
    });
  });
}

void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  with_element_type(common_dtype(x, dy, dx), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, dy.rows, dy.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + dy.cols;
      const T* d = elements<T>(dy, row) + begin;
      T* dgate = elements<T>(dx, row) + begin;
      const auto gradients = [](Floats g, Floats s, Floats u, Floats dout) {
        const Floats gated = g * s;
        return std::array{dout * u * (s + gated * (1.0F - s)), dout * gated};
      };
      transform<2, T>(n, {dgate, dgate + dy.cols}, gradients, Fetching<T>{gate, gate + x.row_stride},
                      mapped<logistic>(gate), Fetching<T>{up, up + x.row_stride}, Fetching<T>{d, d + dy.row_stride});
    });
  });
}

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
  with_element_type(common_dtype(y, bias), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      T* to = elements<T>(y, row) + begin;
      const T* b = elements<T>(bias) + begin;
      for_vectors(n, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(to + i) + lanes.load(b + i)); });
    });
  });
}

void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out) {
  const std::int64_t first = window_begin(window, out.cols, x.cols);
  with_element_type(common_dtype(x, out), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, out.rows, out.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      std::copy_n(elements<T>(x, row) + first + begin, n, elements<T>(out, row) + begin);
    });
  });
}

void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out, bool accumulate) {
  const std::int64_t first = window_begin(window, x.cols, out.cols);
  with_element_type(common_dtype(x, out), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, out.rows, out.cols, [&](std::int64_t row) {
      T* to = elements<T>(out, row);
      if (accumulate) {
        transform(
            x.cols, to + first, [](Floats before, Floats more) { return before + more; },
            static_cast<const T*>(to + first), static_cast<const T*>(elements<T>(x, row)));
        return;
      }
      std::fill_n(to, first, T(0.0F));
      std::copy_n(elements<T>(x, row), x.cols, to + first);
      std::fill(to + first + x.cols, to + out.cols, T(0.0F));
    });
  });
}

}  // namespace weft::cpu
