// Weft's own matrix product: all workers pack panels of A and B once into shared scratch, then compute slices of C from
// them by register tiles. bf16 becomes fp32 while it is packed, or stays what it is in pairs where the CPU multiplies
// them faster, by vectors or in AMX tiles (PackedUnit); sums are fp32, rounded to C's dtype once.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_tile.h"

namespace weft::cpu {

/// What B becomes when it is packed whole: packed_b_elements() of packed_b_dtype(), 4 bytes each for f32 and else 2.
DType packed_b_dtype(PackedUnit unit);
std::int64_t packed_b_elements(const GemmShape& shape);

/// Packs all of B (see GemmShape) into such a vector at `to`, 64-byte aligned. The result depends on shape.n, shape.k
/// and B's values: products of other m, and of transposed A, may read it.
void pack_gemm_b(Workers& workers, const GemmShape& shape, const Matrix& b, std::byte* to, PackedUnit unit);

/// The most rows that a worker can take at once.
constexpr std::int64_t kPackedRowsAtOnce = 1024;

/// A product by the packed engine. `slice_rows` and `slice_cols` are what a worker takes at a time, or less where
/// threads are many: bits don't depend on them. Where slices have all rows, up to kPackedRowsAtOnce, a worker packs the
/// columns of B that it multiplies itself, block by block; else B is packed by all for all.
class PackedGemm {
 public:
  /// By a unit that this CPU has and that takes the inputs' dtype.
  PackedGemm(const GemmShape& shape, const GemmArguments& arguments, std::int64_t slice_rows, std::int64_t slice_cols,
             PackedUnit unit);

  Scratch scratch() const;
  void run(Workers& workers) const;

 private:
  struct Panel;
  struct Buffers;
  struct Slice;
  void pack(Workers& workers, const Panel& panel, const Buffers& buffers, bool a, bool b) const;
  void multiply(Workers& workers, const Panel& panel, const Buffers& buffers) const;
  void multiply_slice(const Panel& panel, const Buffers& buffers, std::int64_t index, std::byte* scratch) const;
  const float* pack_own_b(const Panel& panel, const Slice& slice, std::int64_t k) const;
  void multiply_rows(const Panel& panel, const Buffers& buffers, const Slice& slice) const;
  void divide(Panel& panel, int threads) const;
  std::int64_t rows_together() const;
  std::int64_t own_b_depth() const;
  bool sums_in_c() const;
  bool sums_in_slices() const;

  GemmShape shape_;
  GemmArguments arguments_;
  PackedUnit unit_;
  TileShape tile_;
  // Whether a strip of A sees all of a panel's k before the next one does: AMX multiplies so fast that sums of more
  // rows would have to be fetched from beyond the second-level cache for every block.
  bool by_strips_;
  bool rows_at_once_;   // B is packed by those who multiply it
  std::int64_t depth_;  // k, or the pairs in it, as all that is counted along k below
  std::int64_t slice_rows_, slice_cols_;
  std::int64_t block_;                                  // whose sum stays in registers
  std::int64_t panel_rows_, panel_cols_, panel_depth_;  // what is packed at a time
};

}  // namespace weft::cpu
