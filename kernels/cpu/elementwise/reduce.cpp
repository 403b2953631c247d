// Sums in rank order; see reduce.h.
#include "kernels/cpu/elementwise/reduce.h"

#include <cstring>
#include <type_traits>

#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

template <class T>
void sum_floats(std::span<const void* const> sources, T* out, std::int64_t count) {
  for_vectors(count, [&](std::int64_t i, auto lanes) {
    Floats total = lanes.load(static_cast<const T*>(sources[0]) + i);
    for (const void* source : sources.subspan(1)) total += lanes.load(static_cast<const T*>(source) + i);
    lanes.store(out + i, total);
  });
}

template <class T>
void sum_integers(std::span<const void* const> sources, T* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::make_unsigned_t<T> total = 0;
    for (const void* source : sources) total += static_cast<std::make_unsigned_t<T>>(static_cast<const T*>(source)[i]);
    out[i] = static_cast<T>(total);
  }
}

}  // namespace

void sum_in_rank_order(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype) {
  if (sources.size() == 1) {
    if (out != sources[0]) std::memcpy(out, sources[0], static_cast<std::size_t>(count) * size_of(dtype));
    return;
  }
  switch (dtype) {
    case DType::f32:
      return sum_floats(sources, static_cast<float*>(out), count);
    case DType::bf16:
      return sum_floats(sources, static_cast<bf16*>(out), count);
    case DType::i32:
      return sum_integers(sources, static_cast<std::int32_t*>(out), count);
    case DType::i64:
      return sum_integers(sources, static_cast<std::int64_t*>(out), count);
  }
}

}  // namespace weft::cpu
