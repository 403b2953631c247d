// Work that touches no memory: fp32 multiply-adds in registers. Needs no library.
#pragma once

#include <cstdint>

namespace weft::bench {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
using FloatVector = float __attribute__((vector_size(kVectorBytes)));

inline constexpr int kChains = 12;
inline constexpr double kFlopsARepeat = 2.0 * kChains * kVectorBytes / sizeof(float);

// The compiler must assume that `value` changes here, so it can't drop the computation of `value`.
inline void keep(FloatVector& value) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

/// Independent chains, so that the units for multiply-adds always have work.
inline void multiply_add(std::int64_t repeats) {
  FloatVector chains[kChains];
  for (FloatVector& chain : chains) chain = FloatVector{} + 1.0F;
  FloatVector factor = FloatVector{} + 0.999F, term = FloatVector{} + 0.001F;
  for (std::int64_t i = 0; i < repeats; ++i) {
    keep(factor);
#pragma GCC unroll 12
    for (FloatVector& chain : chains) chain = chain * factor + term;
  }
  for (FloatVector& chain : chains) keep(chain);
}

}  // namespace weft::bench
