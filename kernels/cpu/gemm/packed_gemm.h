// Weft's own matrix product. All workers pack panels of A and B once into shared scratch, then compute slices of C from
// them by register tiles. bf16 becomes fp32 while it is packed. If the CPU multiplies pairs of bf16 faster, by vectors
// or in AMX tiles (PackedUnit), it is packed in pairs. Sums are fp32, rounded to C's dtype once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/chunks.h"
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
  PackedGemm() = default;
  /// Uses a unit that this CPU has and that accepts the inputs' dtype.
  PackedGemm(const GemmShape& shape, const GemmArguments& arguments, std::int64_t slice_rows, std::int64_t slice_cols,
             PackedUnit unit);

  /// One of several products that run together. If A is transposed, a worker packs the rows of A that it multiplies
  /// itself, else the columns of B.
  static PackedGemm one_of_several(const GemmShape& shape, const GemmArguments& arguments, PackedUnit unit);

  Scratch scratch() const;
  void run(Workers& workers) const;

  /// Runs at most kMostTogether products made by one_of_several(), of which workers take slices in turn. Their shapes
  /// differ in m alone, or, with A transposed, in k alone, which one panel holds. The scratch is that of one product
  /// with the sum of their m (k), each rounded up to the unit's tile_shape().
  bool runs_beside(const PackedGemm& other) const { return turned_ == other.turned_; }
  static void run_together(Workers& workers, std::span<const PackedGemm> products);
  static constexpr std::int64_t kMostTogether = 32;

 private:
  struct Panel;
  struct Buffers;
  struct Slice;
  struct Packing;
  Panel panel_at(std::int64_t row, std::int64_t col, std::int64_t k, std::int64_t least_slices) const;
  Buffers buffers_at(ScratchParts& parts) const;
  Packing packing(const Panel& panel, const Buffers& buffers, bool a, bool b) const;
  void multiply_slice(const Panel& panel, const Buffers& buffers, std::int64_t index, std::byte* scratch) const;
  const float* pack_own(const Panel& panel, const Slice& slice, std::int64_t k) const;
  void store_turned(const Slice& slice) const;
  void pack_own_panel(const Panel& panel, const Slice& slice) const;
  LinesAhead lines_ahead(const Panel& panel, const Slice& slice, std::int64_t k) const;
  void multiply_rows(const Panel& panel, const Buffers& buffers, const Slice& slice, std::int64_t more) const;
  bool few_rows() const;
  std::int64_t rows_together() const;
  std::int64_t own_floats() const;
  bool shares_b() const;
  bool stores_beside_caches() const;
  bool sums_in_c() const;
  bool sums_in_slices() const;

  GemmShape shape_{};
  GemmArguments arguments_;
  PackedUnit unit_ = PackedUnit::f32;
  TileShape tile_{};
  // Whether a strip of A is multiplied along all of a panel's k before the next strip begins. AMX multiplies so fast
  // that, otherwise, the sums of the other rows would have to come from beyond the second-level cache for every block.
  bool by_strips_ = false;
  bool own_a_ = false, own_b_ = false;  // each worker packs the rows of A, or the columns of B, that it multiplies
  bool turned_ = false;
  std::int64_t depth_ = 0;  // k, or the number of pairs in it; everything below counts along k in the same unit
  std::int64_t slice_rows_ = 0, slice_cols_ = 0;
  std::int64_t block_ = 0;                                          // the length along k whose sum stays in registers
  std::int64_t panel_rows_ = 0, panel_cols_ = 0, panel_depth_ = 0;  // the size of a panel
};

}  // namespace weft::cpu
