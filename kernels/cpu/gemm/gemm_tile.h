// The innermost part of the packed matrix product: a tile of C in registers, computed from strips of A and B that are
// in memory in the order of reading. AMX units have their own tiles and strips (gemm_amx.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

// A row of B is three vectors. With 16 lanes the tile is 8 × 48: 24 accumulators, the row of B and one element of A
// take 28 of AVX-512's 32 registers, and 24 multiplications need 11 loads. With 8 lanes it is 4 × 24: all 16 registers
// of AVX2, 12 multiplications for 7 loads.
inline constexpr std::int64_t kTileRows = kHalf, kTileCols = 3 * kLanes;

// A block of AMX tiles: two by two tiles of 16 × 16 sums each, by kAmxDepth pairs along k at a time.
inline constexpr std::int64_t kAmxRows = 32, kAmxCols = 32, kAmxDepth = 16;

/// The largest tile, and the unit of its strips' depth.
struct TileShape {
  std::int64_t rows, cols, depth;
};
constexpr TileShape tile_shape(PackedUnit unit) {
  if (unit == PackedUnit::amx) return {kAmxRows, kAmxCols, kAmxDepth};
  return {kTileRows, kTileCols, 1};
}

/// Lines of a matrix that a later tile needs, fetched from memory into the second-level cache while a tile is computed.
struct LinesAhead {
  static constexpr std::int64_t kLine = 64;

  const std::byte* row = nullptr;                // at a line's beginning
  std::int64_t stride = 0, bytes = 0, rows = 0;  // between rows, of a row; and the rows that are left
  std::int64_t at = 0;

  void fetch() {
    if (rows <= 0) return;
    __builtin_prefetch(row + at, 0, 2);
    at += kLine;
    if (at < bytes) return;
    at = 0, row += stride, --rows;
  }
};

/// A strip of A has `depth` columns of kTileRows elements each; a strip of B has `depth` rows of `b_cols` elements
/// (one, two or three vectors, zero beyond C's edge). c[rows, cols] with row stride ldc becomes A·B, plus its old
/// values if `add`, plus bias[cols] if not null. Sums run over one block of depth in order, then join C: one rounding
/// for each block. With AMX, a strip of A has depth / 16 times kAmxRows rows of 16 elements, and sums continue from C's
/// values.
struct TileArguments {
  PackedUnit unit = PackedUnit::f32;
  std::int64_t depth = 0, b_cols = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0, rows = 0, cols = 0;
  bool add = false;
  const float* bias = nullptr;
  std::int64_t a_row_bytes = 0;  // AMX: between rows of A that isn't packed; 0: it is
  LinesAhead* ahead = nullptr;
  bool beside_caches = false;  // AMX: whole tiles are stored by store_beside_caches()
};

/// If the unit is amx, the thread must have prepared its AmxTiles.
void multiply_tile(const TileArguments& tile);

}  // namespace weft::cpu
