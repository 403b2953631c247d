// GELU and SwiGLU; see activation.h.
#include "kernels/activation_formulas.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cuda/elementwise/activation.h"
#include "kernels/cuda/vectorized_elementwise.cuh"

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

}  // namespace

void gelu_forward(const Launch& launch, const Matrix& x, const Matrix& y) {
  require_one_type(x, y);
  const auto views = cpu::common_shape(x, y);
  with_float_type(x.dtype, [&]<class T>(T*) {
    const Streams<T, 1, 1> streams{{stream_of<const T>(views[0])}, {stream_of<T>(views[1])}};
    transform(launch, "gelu_forward", views[0].rows, views[0].cols, streams, Gelu{});
  });
}

void gelu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  require_one_type(x, dy, dx);
  const auto views = cpu::common_shape(x, dy, dx);
  with_float_type(x.dtype, [&]<class T>(T*) {
    const Streams<T, 2, 1> streams{{stream_of<const T>(views[0]), stream_of<const T>(views[1])},
                                   {stream_of<T>(views[2])}};
    transform(launch, "gelu_backward", views[0].rows, views[0].cols, streams, GeluGradient{});
  });
}

void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y) {
  require_one_type(x, y);
  with_float_type(x.dtype, [&]<class T>(T*) {
    const T* gate = data_of<T>(x);
    const Streams<T, 2, 1> streams{{{gate, x.row_stride}, {gate + y.cols, x.row_stride}}, {stream_of<T>(y)}};
    transform(launch, "swiglu_forward", y.rows, y.cols, streams, SwiGlu{});
  });
}

void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  require_one_type(x, dy, dx);
  with_float_type(x.dtype, [&]<class T>(T*) {
    const T* gate = data_of<T>(x);
    T* dgate = data_of<T>(dx);
    const Streams<T, 3, 2> streams{{{gate, x.row_stride}, {gate + dy.cols, x.row_stride}, stream_of<const T>(dy)},
                                   {{dgate, dx.row_stride}, {dgate + dy.cols, dx.row_stride}}};
    transform(launch, "swiglu_backward", dy.rows, dy.cols, streams, SwiGluGradient{});
  });
}

}  // namespace weft::cuda
