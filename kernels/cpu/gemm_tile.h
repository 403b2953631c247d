// The innermost part of the packed matrix product: a tile of C in registers, from strips of A and B that lie in memory
// in the order in which they are read.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace weft::cpu {

// Three vectors are a row of B. With 16 lanes 8 × 48: 24 accumulators, the row of B and one element of A take 28 of
// AVX-512's 32 registers, and 24 multiplications need 11 loads; with 8 lanes 4 × 24: all of AVX2's 16, 12 for 7.
inline constexpr std::int64_t kTileRows = kHalf, kTileCols = 3 * kLanes;

/// A strip of A holds `depth` columns of kTileRows elements each; a strip of B `depth` rows of `b_cols` elements (one,
/// two or three vectors, the last zero beyond C's edge). An element is a float, or if `pairs` two bf16 that are
/// neighbours along k. c[rows, cols] with row stride ldc becomes A·B, plus what it holds if `add`, plus bias[cols] if
/// not null. Sums run over one block of depth in order, then join C: one rounding a block.
struct TileArguments {
  std::int64_t depth = 0, b_cols = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0, rows = 0, cols = 0;
  bool add = false, pairs = false;
  const float* bias = nullptr;
};

void multiply_tile(const TileArguments& tile);

}  // namespace weft::cpu
