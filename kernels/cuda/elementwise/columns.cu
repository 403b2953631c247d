// Biases and windows of columns; see columns.h.
#include "kernels/cuda/elementwise/columns.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
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
                 const Matrix& out) {
  window<false>(launch, "put_columns", x, coordinate, ranks_per_window, out);
}

}  // namespace weft::cuda
