// Dropout; see dropout.h. A piece of 16 bytes begins at a multiple of its number of elements, so that it draws one quad
// of random words. If rows aren't aligned, each element draws its whole quad.
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/vectorized_elementwise.cuh"
#include "kernels/dropout_formula.h"

namespace weft::cuda {
namespace {

constexpr int kUnroll = 2;  // pieces of a thread, all loaded before any is stored

template <class T, int kWidth, bool kResidual>
__global__ void __launch_bounds__(kElementwiseThreads)
    dropout_kernel(DropoutMask mask, kernels::DropoutChance chance, Stream<const T> x, Stream<const T> residual,
                   Stream<T> y, std::int64_t cols, std::int64_t per_row, std::int64_t items) {
  const auto seed = static_cast<std::uint64_t>(mask.random[0]);
  const auto step = static_cast<std::uint32_t>(mask.random[1]);
  const std::int64_t first_row = mask.random[2] + mask.row_offset;
  const std::int64_t part = mask.coordinate != nullptr ? *mask.coordinate : 0;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Place places[kUnroll];
  Raw<T, kWidth> raw[kUnroll], raw_residual[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t item = first + u * kElementwiseThreads;
    if (item >= items) continue;
    places[u] = place_of(item, per_row);
    raw[u] = fetch<T, kWidth>(x.data + places[u].row * x.stride + places[u].piece * kWidth);
    if constexpr (kResidual) {
      raw_residual[u] = fetch<T, kWidth>(residual.data + places[u].row * residual.stride + places[u].piece * kWidth);
    }
  }
  // One bit for each element that is kept; drawn while the pieces are loaded.
  std::uint32_t kept[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kElementwiseThreads >= items) continue;
    const auto element =
        static_cast<std::uint64_t>(((first_row + places[u].row) * mask.parts + part) * cols + places[u].piece * kWidth);
    static_assert(kernels::kDropoutElements % kWidth == 0);
    const PhiloxBlock drawn = philox_quad(seed, step, mask.site, element / kernels::kDropoutElements);
    const std::uint32_t in_quad = static_cast<std::uint32_t>(element) & (kernels::kDropoutElements - kWidth);
    kept[u] = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      kept[u] |= kernels::dropout_bits(drawn, in_quad + i) >= chance.threshold ? 1U << i : 0U;
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kElementwiseThreads >= items) continue;
    float values[kWidth], more[kWidth];
    unpack<T, kWidth>(raw[u], values);
    if constexpr (kResidual) unpack<T, kWidth>(raw_residual[u], more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[i] = (kept[u] >> i & 1) != 0 ? values[i] * chance.scale : 0.0F;
      if constexpr (kResidual) values[i] += more[i];
    }
    put<T, kWidth>(y.data + places[u].row * y.stride + places[u].piece * kWidth, values);
  }
}

}  // namespace

void dropout(const Launch& launch, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y) {
  if (x.rows == 0 || x.cols == 0) return;
  const Matrix& base = residual != nullptr ? *residual : x;
  require_one_type(x, base, y);
  const kernels::DropoutChance chance = kernels::dropout_chance(mask.p);
  with_float_type(x.dtype, [&]<class T>(T*) {
    with_width<T>(vectorizable(x) && vectorizable(base) && vectorizable(y), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::int64_t per_row = x.cols / kWidth, items = x.rows * per_row;
      const auto kernel = residual != nullptr ? dropout_kernel<T, kWidth, true> : dropout_kernel<T, kWidth, false>;
      start("dropout", launch, kernel, blocks_for(items, kUnroll * kElementwiseThreads), kElementwiseThreads, 0, mask,
            chance, stream_of<const T>(x), stream_of<const T>(base), stream_of<T>(y), x.cols, per_row, items);
    });
  });
}

}  // namespace weft::cuda
