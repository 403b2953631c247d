// The innermost part of the packed matrix product: a tile of C in registers, from strips of A and B that lie in memory
// in the order in which they are read. AMX units have tiles and strips of their own (gemm_amx.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

// Three vectors are a row of B. With 16 lanes 8 × 48: 24 accumulators, the row of B and one element of A take 28 of
// AVX-512's 32 registers, and 24 multiplications need 11 loads; with 8 lanes 4 × 24: all of AVX2's 16, 12 for 7.
inline constexpr std::int64_t kTileRows = kHalf, kTileCols = 3 * kLanes;

// A block of AMX tiles: two by two of them, each 16 × 16 sums, by so many pairs along k at a time.
inline constexpr std::int64_t kAmxRows = 32, kAmxCols = 32, kAmxDepth = 16;

/// The largest tile, and what the depth of its strips is a multiple of.
struct TileShape {
  std::int64_t rows, cols, depth;
};
constexpr TileShape tile_shape(PackedUnit unit) {
  if (unit == PackedUnit::amx) return {kAmxRows, kAmxCols, kAmxDepth};
  return {kTileRows, kTileCols, 1};
}

/// A strip of A holds `depth` columns of kTileRows elements each; a strip of B `depth` rows of `b_cols` elements (one,
/// two or three vectors, the last zero beyond C's edge). c[rows, cols] with row stride ldc becomes A·B, plus what it
/// holds if `add`, plus bias[cols] if not null. Sums run over one block of depth in order, then join C: one rounding a
/// block. With AMX, a strip of A holds depth / 16 times kAmxRows rows of 16 elements, and sums go on from C's.
struct TileArguments {
  PackedUnit unit = PackedUnit::f32;
  std::int64_t depth = 0, b_cols = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0, rows = 0, cols = 0;
  bool add = false;
  const float* bias = nullptr;
};

/// On a thread that has prepared its AmxTiles if the unit is amx.
void multiply_tile(const TileArguments& tile);

}  // namespace weft::cpu
