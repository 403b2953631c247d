// The inner part of attention: products of tiles, of fp32 or of pairs of bf16, whose sums stay in registers. Tiles this
// small gain nothing from a BLAS, which packs its operands anew in every call.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// C[rows, kLanes·vectors] (+)= A[rows, depth]·B[depth, kLanes·vectors], where element (r, p) of A stands at
/// a[r·a_row + p·a_step]: rows and columns of A may be exchanged. Sums run over p in order, whatever rows and vectors.
/// Elements of A and B are floats or, where kHasPairs, words that hold two bf16 each, whose products are both summed.
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
template <bool kPairs>
void multiply_tile(const TileProduct& product, std::int64_t rows, std::int64_t vectors);
extern template void multiply_tile<false>(const TileProduct& product, std::int64_t rows, std::int64_t vectors);
extern template void multiply_tile<true>(const TileProduct& product, std::int64_t rows, std::int64_t vectors);

}  // namespace weft::cpu
