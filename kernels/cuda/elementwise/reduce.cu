// Sums in rank order; see elementwise.h.
#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct Sources {
  const void* data[kMostSources];
  int count;
};

template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    sum_floats_kernel(const __grid_constant__ Sources sources, T* out, const Items items, std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= count) return;
  visit<kWidth>(items, item, [&](auto width, std::int64_t, std::int64_t begin) {
    constexpr int kHere = decltype(width)::value;
    float totals[kHere];
    load(static_cast<const T*>(sources.data[0]) + begin, totals);
#pragma unroll 4
    for (int rank = 1; rank < sources.count; ++rank) {
      float more[kHere];
      load(static_cast<const T*>(sources.data[rank]) + begin, more);
#pragma unroll
      for (int i = 0; i < kHere; ++i) totals[i] += more[i];
    }
    store(out + begin, totals);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_integers_kernel(const __grid_constant__ Sources sources, T* out, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  T total = 0;
#pragma unroll 4
  for (int rank = 0; rank < sources.count; ++rank) total += static_cast<const T*>(sources.data[rank])[i];
  out[i] = total;
}

template <class T>
void sum_integers(const Launch& launch, const Sources& sources, void* out, std::int64_t count) {
  start("sum_in_rank_order", launch, sum_integers_kernel<T>, blocks_for(count, kThreads), kThreads, 0, sources,
        static_cast<T*>(out), count);
}

template <class T>
void sum_floats(const Launch& launch, const Sources& sources, void* out, std::int64_t count) {
  constexpr int kWidth = 16 / sizeof(T);
  std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(out);
  for (int rank = 0; rank < sources.count; ++rank) addresses |= reinterpret_cast<std::uintptr_t>(sources.data[rank]);
  const Items items = items_of(1, count, kWidth, addresses % 16 == 0);
  start("sum_in_rank_order", launch, sum_floats_kernel<kWidth, T>, blocks_for(items.count(), kThreads), kThreads, 0,
        sources, static_cast<T*>(out), items, items.count());
}

}  // namespace

void sum_in_rank_order(const Launch& launch, std::span<const void* const> sources, void* out, std::int64_t count,
                       DType dtype) {
  if (sources.empty() || sources.size() > kMostSources) {
    throw std::logic_error("a sum in rank order takes 1 to 64 messages");
  }
  if (count == 0) return;
  Sources all{};
  std::copy(sources.begin(), sources.end(), all.data);
  all.count = static_cast<int>(sources.size());
  switch (dtype) {
    case DType::f32:
      sum_floats<float>(launch, all, out, count);
      break;
    case DType::bf16:
      sum_floats<__nv_bfloat16>(launch, all, out, count);
      break;
    case DType::i32:
      sum_integers<std::uint32_t>(launch, all, out, count);
      break;
    case DType::i64:
      sum_integers<std::uint64_t>(launch, all, out, count);
      break;
  }
}

}  // namespace weft::cuda
