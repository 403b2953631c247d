// GELU and SwiGLU; see activation.h.
#include "kernels/cpu/elementwise/activation.h"

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/bf16_table.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
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

void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + y.cols;
      T* out = elements<T>(y, row) + begin;
      transform(
          n, out, [](Floats g, Floats s, Floats u) { return g * s * u; }, Fetching<T>{gate, gate + x.row_stride},
          mapped<logistic>(Fetching<T>{gate, out + kAhead}), Fetching<T>{up, up + x.row_stride});
    });
  };
  with_element_type(run, x, y);
}

void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto run = [&]<class T>(std::type_identity<T>) {
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
  };
  with_element_type(run, x, dy, dx);
}

}  // namespace weft::cpu
