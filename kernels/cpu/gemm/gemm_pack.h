// Copies of A and B in the order in which gemm_tile.h reads them: strips of a tile's rows or columns, of floats or of
// pairs of bf16.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/gemm_tile.h"
#include "kernels/cpu/gemm/matrix.h"

namespace weft::cpu {

/// A part of op(A) or op(B): `count` rows of op(A) or columns of op(B) from `first`, times `depth` along k from `k`.
/// `k_contiguous`: elements along k are neighbours in memory (A as it is, B transposed). Units other than
/// f32: of a bf16 matrix two elements along k become one of the strips', and k and depth count pairs; what the matrix
/// lacks is zero. With AMX, all that counts along k is in multiples of kAmxDepth.
struct PackSource {
  Matrix matrix;  // f32 or bf16
  bool k_contiguous = false;
  PackedUnit unit = PackedUnit::f32;
  std::int64_t first = 0, count = 0, k = 0, depth = 0;
};

/// The strips that begin with that part's first row (column), each `depth` long, filled from position `k` on: a strip
/// may be filled piece by piece along k.
struct PackTarget {
  float* strips = nullptr;
  std::int64_t depth = 0, k = 0;
};

/// Strips of kTileRows rows: [count / kTileRows, depth, kTileRows], the last filled with zeros. With AMX
/// [count / kAmxRows, depth / kAmxDepth, kAmxRows, kAmxDepth], the last with zeros up to a multiple of 16 rows.
void pack_a(const PackSource& source, const PackTarget& target);

/// Strips of a tile's columns: [count / cols, depth, cols]; the last is one vector wide or more and filled with zeros.
void pack_b(const PackSource& source, const PackTarget& target);

}  // namespace weft::cpu
