// GELU and SwiGLU; see activation.h.
#include "kernels/cpu/activation.h"

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

constexpr float kCubic = 0.044715F;
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2·√(2/π)

// ½(1 + tanh u) is logistic(2u): one exp, no cancellation.
Floats gelu_gate(Floats x) {
  return logistic(kTwoRootTwoOverPi * x * (1.0F + kCubic * x * x));
}

// gelu′ is 0 and 1 to fp32's last bit beyond ±12; clamping there keeps x³ from overflowing into inf·0.
Floats gelu_derivative(Floats x) {
  x = x > 12.0F ? broadcast(12.0F) : x;
  x = x < -12.0F ? broadcast(-12.0F) : x;
  const Floats gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (kTwoRootTwoOverPi * (1.0F + 3.0F * kCubic * x * x));
}

}  // namespace

void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto views = common_shape(x, y);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* in = elements<T>(views[0], row) + begin;
      T* out = elements<T>(views[1], row) + begin;
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        const Floats v = lanes.load(in + i);
        lanes.store(out + i, v * gelu_gate(v));
      });
    });
  };
  with_element_type(run, x, y);
}

void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto views = common_shape(x, dy, dx);
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* in = elements<T>(views[0], row) + begin;
      const T* dout = elements<T>(views[1], row) + begin;
      T* din = elements<T>(views[2], row) + begin;
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        lanes.store(din + i, lanes.load(dout + i) * gelu_derivative(lanes.load(in + i)));
      });
    });
  };
  with_element_type(run, x, dy, dx);
}

void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, y.rows, y.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + y.cols;
      T* out = elements<T>(y, row) + begin;
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        const Floats g = lanes.load(gate + i);
        lanes.store(out + i, g * logistic(g) * lanes.load(up + i));
      });
    });
  };
  with_element_type(run, x, y);
}

void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, dy.rows, dy.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* gate = elements<T>(x, row) + begin;
      const T* up = gate + dy.cols;
      const T* dout = elements<T>(dy, row) + begin;
      T* dgate = elements<T>(dx, row) + begin;
      T* dup = dgate + dy.cols;
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        const Floats g = lanes.load(gate + i), u = lanes.load(up + i), d = lanes.load(dout + i);
        const Floats s = logistic(g);
        lanes.store(dgate + i, d * u * s * (1.0F + g * (1.0F - s)));
        lanes.store(dup + i, d * g * s);
      });
    });
  };
  with_element_type(run, x, dy, dx);
}

}  // namespace weft::cpu
