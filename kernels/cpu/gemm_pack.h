// Copies of A and B in the order in which gemm_tile.h reads them: strips of kTileRows rows or kTileCols columns, of
// floats or of pairs of bf16.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix.h"

namespace weft::cpu {

/// A part of op(A) or op(B): `count` rows of op(A) or columns of op(B) from `first`, times `depth` along k from `k`.
/// `k_contiguous`: elements along k are neighbours in memory (A as it is, B transposed). `pairs`: of a bf16 matrix two
/// elements along k become one of the strips', and k and depth count pairs; what an odd one lacks is zero.
struct PackSource {
  Matrix matrix;  // f32 or bf16
  bool k_contiguous = false, pairs = false;
  std::int64_t first = 0, count = 0, k = 0, depth = 0;
};

/// The strips that begin with that part's first row (column), each `depth` long, filled from position `k` on: a strip
/// may be filled piece by piece along k.
struct PackTarget {
  float* strips = nullptr;
  std::int64_t depth = 0, k = 0;
};

/// Strips of kTileRows rows: [count / kTileRows, depth, kTileRows], the last filled with zeros.
void pack_a(const PackSource& source, const PackTarget& target);

/// Strips of kTileCols columns: [count / kTileCols, depth, kTileCols]; the last is one, two or three vectors wide and
/// filled with zeros.
void pack_b(const PackSource& source, const PackTarget& target);

}  // namespace weft::cpu
