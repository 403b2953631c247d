// The inner parts of attention: products of fp32 tiles that stay in registers, and transposes of square blocks. Tiles
// this small gain nothing from a BLAS, which packs its operands anew in every call.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// C[rows, kLanes·vectors] (+)= A[rows, depth]·B[depth, kLanes·vectors], where element (r, p) of A stands at
/// a[r·a_row + p·a_step]: rows and columns of A may be exchanged. Sums run over p in order, whatever rows and vectors.
struct TileProduct {
  const float* a;
  std::int64_t a_row, a_step;
  const float* b;
  std::int64_t b_step;
  float* c;
  std::int64_t c_row;
  std::int64_t depth;
  bool accumulate;
};
void multiply_tile(const TileProduct& product, std::int64_t rows, std::int64_t vectors);

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
