// Small kernels; see elementwise.h.
#include "kernels/cpu/chunks.h"
#include "kernels/cuda/elementwise/column_sums.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"
#include "kernels/formulas.h"

namespace weft::cuda {

namespace {

struct SumOfTwo {
  __device__ void operator()(const float (&in)[2], float (&out)[1]) const { out[0] = in[0] + in[1]; }
};

struct Multiple {
  float factor;
  __device__ void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = factor * in[0]; }
};

struct Shifted {
  float value;
  __device__ void operator()(const float (&in)[1], float (&out)[1]) const { out[0] = in[0] + value; }
};

/// Zero whatever is read, a NaN too.
struct Nothing {
  __device__ void operator()(const float (&)[1], float (&out)[1]) const { out[0] = 0.0F; }
};

template <int kWidth, class From, class To>
__global__ void __launch_bounds__(kElementwiseThreads)
    cast_kernel(const From* x, std::int64_t x_stride, To* out, std::int64_t out_stride, const Items items,
                std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (item >= count) return;
  visit<kWidth>(items, item, [&](auto width, std::int64_t row, std::int64_t column) {
    float values[decltype(width)::value];
    load(x + row * x_stride + column, values);
    store(out + row * out_stride + column, values);
  });
}

// A bias's gradient; see column_sums.cuh.
template <class T>
struct Elements {
  const T* data;
  std::int64_t row_stride;

  template <int kWidth>
  __device__ void operator()(std::int64_t row, int column, float (&totals)[1][kWidth]) const {
    float values[kWidth];
    load(data + row * row_stride + column, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) totals[0][i] += values[i];
  }
};

template <class From, class To>
__global__ void select_row_kernel(const From* x, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                                  const std::int64_t* index, To* out) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const std::int64_t row = (*index % rows + rows) % rows;
  out[col] = from_float<To>(to_float(x[row * stride + col]));
}

}  // namespace

void add(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& out) {
  const auto views = cpu::common_shape(a, b, out);
  transform(launch, "add", std::array{views[0], views[1]}, std::array{views[2]}, SumOfTwo{});
}

void scale(const Launch& launch, const Matrix& x, float factor, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  transform(launch, "scale", std::array{views[0]}, std::array{views[1]}, Multiple{factor});
}

void add_constant(const Launch& launch, const Matrix& x, float value, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  transform(launch, "add_constant", std::array{views[0]}, std::array{views[1]}, Shifted{value});
}

void zero(const Launch& launch, const Matrix& out) {
  transform(launch, "zero", std::array{out}, std::array{out}, Nothing{});
}

void cast(const Launch& launch, const Matrix& x, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  if (cpu::count(views[0]) == 0) return;
  with_float_type(x.dtype, [&]<class From>(From*) {
    with_float_type(out.dtype, [&]<class To>(To*) {
      constexpr int kWidth = 16 / sizeof(To);  // consecutive threads store to adjacent addresses
      const bool wide = loads_vectors(views[0], kWidth) && loads_vectors(views[1], kWidth);
      const Items items = items_of(views[0].rows, views[0].cols, kWidth, wide);
      start("cast", launch, cast_kernel<kWidth, From, To>, blocks_for(items.count(), kElementwiseThreads),
            kElementwiseThreads, 0, static_cast<const From*>(views[0].data), views[0].row_stride,
            static_cast<To*>(views[1].data), views[1].row_stride, items, items.count());
    });
  });
}

void bias_gradient(const Launch& launch, const Matrix& dy, const Matrix& db, bool accumulate) {
  auto* partials = reinterpret_cast<float*>(launch.scratch);
  with_float_type(dy.dtype, [&]<class T>(T*) {
    const Elements<T> elements{static_cast<const T*>(dy.data), dy.row_stride};
    if (vectorizable(dy)) {
      column_sums<kVector, 1>(launch, elements, dy.rows, dy.cols, partials, db.f32(), nullptr, accumulate);
    } else {
      column_sums<1, 1>(launch, elements, dy.rows, dy.cols, partials, db.f32(), nullptr, accumulate);
    }
  });
}

std::int64_t bias_gradient_scratch_bytes(std::int64_t rows, std::int64_t cols) {
  return partial_bytes(column_sum_chunks(rows, cols).count, 1, cols);
}

void select_row(const Launch& launch, const Matrix& x, const std::int64_t* index, const Matrix& out) {
  if (x.rows == 0 || x.cols == 0) return;
  with_float_type(x.dtype, [&]<class From>(From*) {
    with_float_type(out.dtype, [&]<class To>(To*) {
      start("select_row", launch, select_row_kernel<From, To>, blocks_for(x.cols, kElementwiseThreads),
            kElementwiseThreads, 0, data_of<const From>(x), x.rows, x.cols, x.row_stride, index, data_of<To>(out));
    });
  });
}

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

struct GeGlu {
  __device__ void operator()(const float (&in)[2], float (&out)[1]) const {
    out[0] = kernels::gelu_tanh(in[0]) * in[1];
  }
};

struct GeGluGradient {
  __device__ void operator()(const float (&in)[3], float (&out)[2]) const {
    out[0] = in[2] * in[1] * kernels::gelu_tanh_gradient(in[0]);
    out[1] = in[2] * kernels::gelu_tanh(in[0]);
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

void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y, const Matrix* offsets) {
  transform_rows_of_groups(launch, "swiglu_forward", halves_of(x), std::array{y}, SwiGlu{}, offsets);
}

void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx, const Matrix* offsets) {
  const auto [gate, up] = halves_of(x);
  transform_rows_of_groups(launch, "swiglu_backward", std::array{gate, up, dy}, halves_of(dx), SwiGluGradient{},
                           offsets);
}

void geglu_forward(const Launch& launch, const Matrix& x, const Matrix& y, const Matrix* offsets) {
  transform_rows_of_groups(launch, "geglu_forward", halves_of(x), std::array{y}, GeGlu{}, offsets);
}

void geglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx, const Matrix* offsets) {
  const auto [gate, up] = halves_of(x);
  transform_rows_of_groups(launch, "geglu_backward", std::array{gate, up, dy}, halves_of(dx), GeGluGradient{}, offsets);
}

namespace {

template <class T, int kWidth>
struct AddBias : ItemWork {
  struct Item {
    Raw<T, kWidth> y, bias;
  };

  Stream<T> y;
  const T* bias;
  const std::int64_t* coordinate;

  __device__ bool begin() const { return *coordinate == 0; }
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    item.y = fetch<kWidth>(y.at(row, column));
    item.bias = fetch<kWidth>(bias + column);
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    float values[kWidth], more[kWidth];
    unpack(item.y, values);
    unpack(item.bias, more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += more[i];
    store(y.at(row, column), values);
  }
};

// Copies bits. `narrow` and `wide` are the column counts of the window and of the whole matrix.
template <class T, int kWidth, bool kTake>
struct CopyWindow : ItemWork {
  struct Item {
    Raw<T, kWidth> raw;
  };

  Stream<const T> x;
  Stream<T> out;
  const std::int64_t* coordinate;
  std::int64_t ranks_per_window, narrow, wide;
  std::int64_t first = 0;  // column of the window

  __device__ bool begin() {
    first = *coordinate / ranks_per_window * narrow;
    return first >= 0 && first + narrow <= wide;
  }
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    item.raw = {};
    if constexpr (kTake) {
      item.raw = fetch<kWidth>(x.at(row, first + column));
    } else if (column >= first && column < first + narrow) {
      item.raw = fetch<kWidth>(x.at(row, column - first));
    }
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    store(out.at(row, column), item.raw);
  }
};

// Adds elements to the window, whose columns x has.
template <class T, int kWidth>
struct AddToWindow : ItemWork {
  struct Item {
    Raw<T, kWidth> raw;
  };

  Stream<const T> x;
  Stream<T> out;
  const std::int64_t* coordinate;
  std::int64_t ranks_per_window, narrow, wide;
  std::int64_t first = 0;  // column of the window

  __device__ bool begin() {
    first = *coordinate / ranks_per_window * narrow;
    return first >= 0 && first + narrow <= wide;
  }
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    item.raw = fetch<kWidth>(x.at(row, column));
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    float values[kWidth], more[kWidth];
    unpack(item.raw, more);
    unpack(fetch<kWidth>(out.at(row, first + column)), values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += more[i];
    store(out.at(row, first + column), values);
  }
};

template <bool kTake>
void window(const Launch& launch, const char* name, const Matrix& x, const std::int64_t* coordinate,
            std::int64_t ranks_per_window, const Matrix& out) {
  require_one_type(x, out);
  const std::int64_t narrow = kTake ? out.cols : x.cols, wide = kTake ? x.cols : out.cols;
  with_pieces(x.dtype, vectorizable(x) && vectorizable(out), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const CopyWindow<T, kWidth, kTake> work{
        {}, stream_of<const T>(x), stream_of<T>(out), coordinate, ranks_per_window, narrow, wide};
    for_items<2, kWidth>(launch, name, out.rows, out.cols, work);
  });
}

}  // namespace

void add_bias(const Launch& launch, const Matrix& y, const Matrix& bias, const std::int64_t* coordinate) {
  require_one_type(y, bias);
  const Matrix bias_row{bias.data, 1, y.cols, y.cols, bias.dtype};
  with_pieces(y.dtype, vectorizable(y) && vectorizable(bias_row), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const AddBias<T, kWidth> work{{}, stream_of<T>(y), data_of<const T>(bias), coordinate};
    for_items<2, kWidth>(launch, "add_bias", y.rows, y.cols, work);
  });
}

void take_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  const Matrix& out) {
  window<true>(launch, "take_columns", x, coordinate, ranks_per_window, out);
}

void put_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                 const Matrix& out, bool accumulate) {
  if (!accumulate) {
    window<false>(launch, "put_columns", x, coordinate, ranks_per_window, out);
    return;
  }
  require_one_type(x, out);
  with_pieces(x.dtype, vectorizable(x) && vectorizable(out), [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const AddToWindow<T, kWidth> work{
        {}, stream_of<const T>(x), stream_of<T>(out), coordinate, ranks_per_window, x.cols, out.cols};
    for_items<2, kWidth>(launch, "put_columns", x.rows, x.cols, work);
  });
}

}  // namespace weft::cuda
