// The inner part of attention: products of tiles of fp32 or of pairs of bf16, with sums in registers. Such small tiles
// gain nothing from a BLAS, which packs its operands anew in every call.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// C[rows, kLanes·vectors] (+)= A[rows, depth]·B[depth, kLanes·vectors]. Element (r, p) of A is a[r·a_row + p·a_step],
/// so A may be transposed. Sums run over p in order, for any rows and vectors. Elements of A and B are floats or, if
/// kHasPairs, words of two bf16 each, whose products are both summed.
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
