// GELU and SwiGLU; see activation.h.
#include "kernels/activation_formulas.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cuda/elementwise/activation.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

struct Gelu {
  __device__ void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = kernels::gelu_tanh(in[0]); }
};

struct GeluGradient {
  __device__ void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = in[1] * kernels::gelu_tanh_gradient(in[0]);
  }
};

struct SwiGlu {
  __device__ void operator()(const float (&in)[2], float (&out)[1]) const { out[0] = kernels::silu(in[0]) * in[1]; }
};

// The gradient for gate, up and dy.
struct SwiGluGradient {
  __device__ void operator()(const float (&in)[3], float (&out)[2]) const {
    out[0] = in[2] * in[1] * kernels::silu_gradient(in[0]);
    out[1] = in[2] * kernels::silu(in[0]);
  }
};

// The left and the right half of the columns.
std::array<Matrix, 2> halves_of(const Matrix& matrix) {
  Matrix left = matrix;
  left.cols /= 2;
  Matrix right = left;
  right.data = static_cast<std::byte*>(matrix.data) + left.cols * static_cast<std::int64_t>(size_of(matrix.dtype));
  return {left, right};
}

}  // namespace

void gelu_forward(const Launch& launch, const Matrix& x, const Matrix& y) {
  const auto views = cpu::common_shape(x, y);
  transform(launch, "gelu_forward", std::array{views[0]}, std::array{views[1]}, Gelu{});
}

void gelu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto views = cpu::common_shape(x, dy, dx);
  transform(launch, "gelu_backward", std::array{views[0], views[1]}, std::array{views[2]}, GeluGradient{});
}

void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y) {
  transform(launch, "swiglu_forward", halves_of(x), std::array{y}, SwiGlu{});
}

void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  const auto [gate, up] = halves_of(x);
  transform(launch, "swiglu_backward", std::array{gate, up, dy}, halves_of(dx), SwiGluGradient{});
}

}  // namespace weft::cuda
