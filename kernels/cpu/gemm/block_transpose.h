// Transposes a square block that stays in registers.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// For exchanging blocks of kBlock × kBlock across the diagonal: the source of lane `lane` of a pair's new first (or
/// second) vector. Below kLanes it is a lane of the old first vector, else of the old second.
template <int kBlock, bool kSecond>
constexpr int source_lane(int lane) {
  const bool upper = (lane & kBlock) != 0;
  if constexpr (kSecond) return upper ? lane + int{kLanes} : lane + kBlock;
  return upper ? lane - kBlock + int{kLanes} : lane;
}

template <int kBlock, bool kSecond, std::size_t... kLane>
inline Floats swapped(Floats a, Floats b, std::index_sequence<kLane...> /*lanes*/) {
  return __builtin_shufflevector(a, b, source_lane<kBlock, kSecond>(static_cast<int>(kLane))...);
}

template <int kBlock>
[[gnu::always_inline]] inline void swap_blocks(Floats (&rows)[kLanes]) {
  constexpr auto kEach = std::make_index_sequence<kLanes>{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kBlock) != 0) continue;
    const Floats a = rows[i], b = rows[i + kBlock];
    rows[i] = swapped<kBlock, false>(a, b, kEach);
    rows[i + kBlock] = swapped<kBlock, true>(a, b, kEach);
  }
}

/// Lane j of vector i becomes lane i of vector j.
[[gnu::always_inline]] inline void transpose(Floats (&rows)[kLanes]) {
  if constexpr (kLanes == 16) swap_blocks<8>(rows);
  swap_blocks<4>(rows);
  swap_blocks<2>(rows);
  swap_blocks<1>(rows);
}

}  // namespace weft::cpu
