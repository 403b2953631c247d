// The innermost part of the packed matrix product: a tile of C of 8 × 48 elements in registers, from strips of A and B
// that lie in memory in the order in which they are read.
#pragma once

#include <cstdint>

namespace weft::cpu {

// 24 accumulators of 16 lanes, 3 for a row of B and one for an element of A: 28 of AVX-512's 32 registers, and 24
// multiplications for 11 loads.
inline constexpr std::int64_t kTileRows = 8, kTileCols = 48;

/// A strip of A holds `depth` columns of kTileRows elements each; a strip of B `depth` rows of `b_cols` elements (16,
/// 32 or 48, the last zero beyond C's edge). c[rows, cols] with row stride ldc becomes A·B, plus what it holds if
/// `add`, plus bias[cols] if not null. Sums run over one block of depth in order, then join C: one rounding a block.
struct TileArguments {
  std::int64_t depth = 0, b_cols = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0, rows = 0, cols = 0;
  bool add = false;
  const float* bias = nullptr;
};

void multiply_tile(const TileArguments& tile);

}  // namespace weft::cpu
