// The inner part of attention: products of fp32 tiles that stay in registers. Tiles this small gain nothing from a
// BLAS, which packs its operands anew in every call.
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

}  // namespace weft::cpu
