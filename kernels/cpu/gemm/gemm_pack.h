// Copies of A and B in the order in which gemm_tile.h reads them: strips of a tile's rows or columns, of floats or of
// pairs of bf16.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/gemm_tile.h"
#include "kernels/cpu/matrix.h"

namespace weft::cpu {

/// A part of op(A) or op(B): `count` rows of op(A) or columns of op(B) from `first`, times `depth` along k from `k`.
/// `k_contiguous`: elements along k are adjacent in memory (A as it is, B transposed). With units other than f32, two
/// elements of a bf16 matrix along k become one pair of a strip; k and depth then count pairs, and elements past the
/// end are zero. With AMX, all counts along k are multiples of kAmxDepth.
struct PackSource {
  Matrix matrix;  // f32 or bf16
  bool k_contiguous = false;
  PackedUnit unit = PackedUnit::f32;
  std::int64_t first = 0, count = 0, k = 0, depth = 0;
};

/// The strips for such a part, each `depth` long, beginning with the part's first row (column). They are filled from
/// position `k` on, so that a strip may be filled piece by piece along k.
struct PackTarget {
  float* strips = nullptr;
  std::int64_t depth = 0, k = 0;
};

/// Strips of kTileRows rows: [count / kTileRows, depth, kTileRows]; the last is padded with zeros. With AMX [count /
/// kAmxRows, depth / kAmxDepth, kAmxRows, kAmxDepth]; the last is padded with zeros to a multiple of 16 rows.
void pack_a(const PackSource& source, const PackTarget& target);

/// Strips of a tile's columns: [count / cols, depth, cols]; the last has one or more whole vectors, padded with zeros.
void pack_b(const PackSource& source, const PackTarget& target);

}  // namespace weft::cpu
