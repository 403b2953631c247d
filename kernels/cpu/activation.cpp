// GELU and SwiGLU; see activation.h.
#include "kernels/cpu/activation.h"

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

constexpr float kCubic = 0.044715F;
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2·√(2/π)
constexpr float kScale = -kTwoRootTwoOverPi * kLog2e;

// ½(1 + tanh u) is 1/(1 + e⁻²ᵘ): one power, no cancellation. NaN may give any number: the gate is multiplied by x.
[[gnu::always_inline]] inline Floats gelu_gate(Floats x) {
  return logistic2(x * (kScale + (kScale * kCubic) * (x * x)));
}

// gelu′ is 0 and 1 to fp32's last bit beyond ±12; clamping there keeps x³ from overflowing into inf·0.
[[gnu::always_inline]] inline Floats gelu_derivative(Floats x) {
  x = at_least(at_most(x, 12.0F), -12.0F);
  const Floats gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (kTwoRootTwoOverPi * (1.0F + 3.0F * kCubic * x * x));
}

}  // namespace

void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto views = common_shape(x, y);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      transform(
          n, elements<T>(views[1], row) + begin, [](Floats v) { return v * gelu_gate(v); },
          elements<T>(views[0], row) + begin);
    });
  };
  with_element_type(run, x, y);
}

void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto views = common_shape(x, dy, dx);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      transform(
          n, elements<T>(views[2], row) + begin, [](Floats v, Floats d) { return d * gelu_derivative(v); },
          elements<T>(views[0], row) + begin, elements<T>(views[1], row) + begin);
    });
  };
  with_element_type(run, x, dy, dx);
}

void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      transform(
          n, elements<T>(y, row) + begin, [](Floats g, Floats u) { return g * logistic(g) * u; }, gate, gate + y.cols);
    });
  };
  with_element_type(run, x, y);
}

void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, dy.rows, dy.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      T* dgate = elements<T>(dx, row) + begin;
      const auto gradients = [](Floats g, Floats u, Floats d) {
        const Floats s = logistic(g), gated = g * s;
        return std::array{d * u * (s + gated * (1.0F - s)), d * gated};
      };
      transform<2, T>(n, {dgate, dgate + dy.cols}, gradients, gate, gate + dy.cols,
                      static_cast<const T*>(elements<T>(dy, row) + begin));
    });
  };
  with_element_type(run, x, dy, dx);
}

}  // namespace weft::cpu
