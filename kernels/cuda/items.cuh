// The walk of elementwise kernels over the items of a matrix. An item is a piece of a row (vector_access.cuh).
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda {

/// Row and piece within the row, for piece `item` of a matrix with `per_row` pieces a row.
struct Place {
  std::int64_t row, piece;
};
__device__ inline Place place_of(std::int64_t item, std::int64_t per_row) {
  if (item < per_row) return {0, item};
  if (((item | per_row) >> 32) == 0) {  // a 64-bit division costs as much as a piece's arithmetic
    const auto small = static_cast<std::uint32_t>(item), divisor = static_cast<std::uint32_t>(per_row);
    const std::uint32_t row = small / divisor;
    return {row, small - row * divisor};
  }
  return {item / per_row, item % per_row};
}

__device__ inline void report(Fault* fault, Fault what) {
  if (fault != nullptr) *fault = what;
}

inline constexpr int kElementwiseThreads = 256;

/// What a kernel does with an item, in steps. A work derives from it, has a struct Item for what a thread keeps of an
/// item between the steps, and load() and finish(); `row` and `column` are those of the item's first element.
///
///   template <class T, int kWidth>
///   struct Copy : ItemWork {
///     struct Item { Raw<T, kWidth> raw; };
///     Stream<const T> x;
///     Stream<T> y;
///     __device__ void load(std::int64_t row, std::int64_t column, Item& item) const { item.raw = fetch… }
///     __device__ void finish(std::int64_t row, std::int64_t column, Item& item) const { store… }
///   };
struct ItemWork {
  /// Once a thread; false: nothing is to be done.
  __device__ bool begin() { return true; }
  /// Loads what load() needs for an address.
  template <class Item>
  __device__ void find(std::int64_t /*row*/, Item& /*item*/) const {}
  /// Arithmetic beside the loads in flight.
  template <class Item>
  __device__ void prepare(std::int64_t /*row*/, std::int64_t /*column*/, Item& /*item*/) const {}
};

/// Each step is done for kUnroll items before the next, so that loads that might alias stores are in flight together.
template <int kUnroll, int kWidth, class Work>
__global__ void __launch_bounds__(kElementwiseThreads)
    item_kernel(Work work, std::int64_t per_row, std::int64_t items) {
  await_earlier_kernels();
  if (!work.begin()) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Place places[kUnroll];
  typename Work::Item kept[kUnroll];
  const auto step = [&](const auto& body) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * kElementwiseThreads < items) body(places[u], kept[u], u);
    }
  };
  step([&](Place& place, auto& item, int u) {
    place = place_of(first + u * kElementwiseThreads, per_row);
    work.find(place.row, item);
  });
  step([&](const Place& place, auto& item, int) { work.load(place.row, place.piece * kWidth, item); });
  step([&](const Place& place, auto& item, int) { work.prepare(place.row, place.piece * kWidth, item); });
  step([&](const Place& place, auto& item, int) { work.finish(place.row, place.piece * kWidth, item); });
}

/// Launches it on rows × cols elements.
template <int kUnroll, int kWidth, class Work>
void for_items(const Launch& launch, const char* name, std::int64_t rows, std::int64_t cols, const Work& work) {
  const std::int64_t per_row = cols / kWidth, items = rows * per_row;
  if (items == 0) return;
  start_early(name, launch, item_kernel<kUnroll, kWidth, Work>, blocks_for(items, kUnroll * kElementwiseThreads),
              kElementwiseThreads, work, per_row, items);
}

/// A work on the rows before *end alone, a number that only the device knows.
template <class Work>
struct RowsBefore : Work {
  const std::int32_t* end;
  std::int64_t rows = 0;

  __device__ bool begin() {
    rows = *end;
    return Work::begin();
  }
  template <class Item>
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    if (row < rows) Work::load(row, column, item);
  }
  template <class Item>
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    if (row < rows) Work::finish(row, column, item);
  }
};

/// See transform().
template <class T, int kWidth, int kIn, int kOut, class F>
struct Transform : ItemWork {
  struct Item {
    Raw<T, kWidth> raw[kIn];
  };

  Stream<const T> in[kIn];
  Stream<T> out[kOut];
  F f;

  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
#pragma unroll
    for (int k = 0; k < kIn; ++k) item.raw[k] = fetch<kWidth>(in[k].at(row, column));
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    float values[kIn][kWidth], results[kOut][kWidth];
#pragma unroll
    for (int k = 0; k < kIn; ++k) unpack(item.raw[k], values[k]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float of_in[kIn], of_out[kOut];
#pragma unroll
      for (int k = 0; k < kIn; ++k) of_in[k] = values[k][i];
      f(of_in, of_out);
#pragma unroll
      for (int k = 0; k < kOut; ++k) results[k][i] = of_out[k];
    }
#pragma unroll
    for (int k = 0; k < kOut; ++k) store(out[k].at(row, column), results[k]);
  }
};

/// Calls body(work, integral_constant of a piece's elements); see transform().
template <std::size_t kIn, std::size_t kOut, class F, class Body>
void with_transform(const std::array<Matrix, kIn>& in, const std::array<Matrix, kOut>& out, const F& f,
                    const Body& body) {
  bool vectors = true;
  for (const Matrix& matrix : in) require_one_type(out[0], matrix), vectors = vectors && vectorizable(matrix);
  for (const Matrix& matrix : out) require_one_type(out[0], matrix), vectors = vectors && vectorizable(matrix);
  with_pieces(out[0].dtype, vectors, [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    Transform<T, kWidth, static_cast<int>(kIn), static_cast<int>(kOut), F> work{{}, {}, {}, f};
    for (std::size_t k = 0; k < kIn; ++k) work.in[k] = stream_of<const T>(in[k]);
    for (std::size_t k = 0; k < kOut; ++k) work.out[k] = stream_of<T>(out[k]);
    body(work, std::integral_constant<int, kWidth>{});
  });
}

/// outputs = f(inputs) element by element, for matrices of one dtype and shape; an output may be an input. F has
/// operator()(const float (&in)[kIn], float (&out)[kOut]) on the device.
template <std::size_t kIn, std::size_t kOut, class F>
void transform(const Launch& launch, const char* name, const std::array<Matrix, kIn>& in,
               const std::array<Matrix, kOut>& out, const F& f) {
  with_transform(in, out, f, [&](const auto& work, auto width) {
    for_items<2, decltype(width)::value>(launch, name, out[0].rows, out[0].cols, work);
  });
}

/// The same for the rows before the last of `offsets`, if it isn't null; the other rows stay.
template <std::size_t kIn, std::size_t kOut, class F>
void transform_rows_of_groups(const Launch& launch, const char* name, const std::array<Matrix, kIn>& in,
                              const std::array<Matrix, kOut>& out, const F& f, const Matrix* offsets) {
  if (offsets == nullptr) return transform(launch, name, in, out, f);
  with_transform(in, out, f, [&]<class Work>(const Work& work, auto width) {
    const RowsBefore<Work> some{work, offsets->i32() + offsets->cols - 1};
    for_items<2, decltype(width)::value>(launch, name, out[0].rows, out[0].cols, some);
  });
}

/// rows × cols elements as items of two kinds, for tensors of any length: in each row, `vectors` whole vectors, then
/// the other elements one by one.
struct Items {
  std::int64_t rows, cols, vectors, per_row;

  std::int64_t count() const { return rows * per_row; }
};

/// `wide`: whether vectors of `width` elements can be used.
inline Items items_of(std::int64_t rows, std::int64_t cols, int width, bool wide) {
  const std::int64_t vectors = wide ? cols / width : 0;
  return {rows, cols, vectors, vectors + cols - vectors * width};
}

/// Calls body(std::integral_constant<int, width>, row, first column) for one item.
template <int kWidth, class Body>
__device__ inline void visit(const Items& items, std::int64_t item, const Body& body) {
  const auto [row, at] = place_of(item, items.per_row);
  if (at < items.vectors) {
    body(std::integral_constant<int, kWidth>{}, row, at * kWidth);
  } else {
    body(std::integral_constant<int, 1>{}, row, at + items.vectors * (kWidth - 1));
  }
}

}  // namespace weft::cuda
