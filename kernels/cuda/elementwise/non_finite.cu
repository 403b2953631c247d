// The first NaN or infinity of a matrix; see elementwise.h. Reads each element once, at the speed of memory.
#include <cfloat>
#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// The least index is the same in whatever order blocks run.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    non_finite_kernel(const Stream<const T> x, const Items items, std::int64_t count, const std::int32_t* rows,
                      unsigned long long* first) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= count) return;
  visit<kWidth>(items, item, [&](auto width, std::int64_t row, std::int64_t column) {
    if (rows != nullptr && row >= *rows) return;
    constexpr int kHere = decltype(width)::value;
    float values[kHere];
    load(x.at(row, column), values);
    int found = kHere;
#pragma unroll
    for (int i = kHere - 1; i >= 0; --i) {
      if (!(fabsf(values[i]) <= FLT_MAX)) found = i;  // false of a NaN
    }
    if (found < kHere) atomicMin(first, static_cast<unsigned long long>(row * items.cols + column + found));
  });
}

}  // namespace

void find_non_finite(const Launch& launch, const Matrix& x, const std::int32_t* rows, std::uint64_t* first) {
  with_float_type(x.dtype, [&]<class T>(T*) {
    constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
    const Items items = items_of(x.rows, x.cols, kWidth, loads_vectors(x, kWidth));
    if (items.count() == 0) return;
    static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
    start("find_non_finite", launch, non_finite_kernel<kWidth, T>, blocks_for(items.count(), kThreads), kThreads, 0,
          stream_of<const T>(x), items, items.count(), rows, reinterpret_cast<unsigned long long*>(first));
  });
}

}  // namespace weft::cuda
