// Weft's own matrix product. All workers pack panels of A and B once into shared scratch, then compute slices of C from
// them by register tiles. bf16 becomes fp32 while it is packed. If the CPU multiplies pairs of bf16 faster, by vectors
// or in AMX tiles (PackedUnit), it is packed in pairs. Sums are fp32, rounded to C's dtype once.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_tile.h"

namespace weft::cpu {

/// The most rows that a worker can take at a time.
constexpr std::int64_t kPackedRowsAtOnce = 1024;

/// Elements along k whose products are summed in registers, at most; a panel has up to kPackedBlocks such blocks.
std::int64_t packed_block(PackedUnit unit);
inline constexpr std::int64_t kPackedBlocks = 3;

/// A product by the packed engine. A worker takes `slice_rows` × `slice_cols` elements at a time, or less if there are
/// many threads; the bits don't depend on them. If slices have all rows, up to kPackedRowsAtOnce, a worker packs the
/// columns of B that it multiplies itself, block by block. Otherwise all workers pack B for all.
class PackedGemm {
 public:
  /// Uses a unit that this CPU has and that accepts the inputs' dtype.
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
  // Whether a strip of A is multiplied along all of a panel's k before the next strip begins. AMX multiplies so fast
  // that, otherwise, the sums of the other rows would have to come from beyond the second-level cache for every block.
  bool by_strips_;
  bool rows_at_once_;   // each worker packs the columns of B that it multiplies
  std::int64_t depth_;  // k, or the number of pairs in it; everything below counts along k in the same unit
  std::int64_t slice_rows_, slice_cols_;
  std::int64_t block_;                                  // the length along k whose sum stays in registers
  std::int64_t panel_rows_, panel_cols_, panel_depth_;  // the size of a panel
};

}  // namespace weft::cpu
