// Transposes a square block that stays in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// Lane j of vector i becomes lane i of vector j.
inline void transpose(std::array<Floats, kLanes>& block) {
  // log2(kLanes) times: interleave the first half of the vectors with the last.
  for (std::int64_t done = 1; done < kLanes; done *= 2) {
    std::array<Floats, kLanes> next;
    for (std::size_t i = 0; i < kHalf; ++i) {
      const Pair pair = interleave(block[i], block[i + kHalf]);
      next[2 * i] = pair.first, next[2 * i + 1] = pair.second;
    }
    block = next;
  }
}

}  // namespace weft::cpu
