// The inner parts of attention: products of fp32 tiles that stay in registers, and transposes of 16 × 16 blocks. Tiles
// this small gain nothing from a BLAS, which packs its operands anew in every call.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// C[rows, 16·vectors] (+)= A[rows, depth]·B[depth, 16·vectors], where element (r, p) of A stands at
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
  // Four times: interleave the first eight vectors with the last eight.
  for (int round = 0; round < 4; ++round) {
    std::array<Floats, kLanes> next;
    for (std::size_t i = 0; i < kLanes / 2; ++i) {
      const Floats first = block[i], last = block[i + kLanes / 2];
      next[2 * i] = __builtin_shufflevector(first, last, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(first, last, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    block = next;
  }
}

}  // namespace weft::cpu
