// Panels, strips and slices of the packed matrix product; see packed_gemm.h.
#include "kernels/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/gemm_pack.h"
#include "kernels/cpu/gemm/gemm_tile.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// k is summed in blocks of about this length. They are long enough that loading and storing a tile of C costs little,
// and short enough that a strip of one matrix stays in the first-level cache while the other's strips pass. The strip
// that stays is A's for the wide tile, and B's for the narrow tile, whose few rows use each row of B seldom.
#if defined(__AVX512F__)
constexpr std::int64_t kBlock = 384;
constexpr bool kStripOfAStays = true;
#else
constexpr std::int64_t kBlock = 256;
constexpr bool kStripOfAStays = false;
#endif
constexpr std::int64_t kAmxBlock = 256;  // a strip of A takes 32 of 48 KiB

// The size of a panel: at most 4.5 MiB of A and 5 MiB of B are packed at a time.
constexpr std::int64_t kPanelRows = kPackedRowsAtOnce, kPanelCols = 1152;

// Slices with all rows have at most this many columns, and their packed columns of B stay in the second-level cache. If
// a panel has fewer than two slices a thread, slices are halved, down to the least size.
constexpr std::int64_t kMostColsAtOnce = 384, kLeastCols = 96, kLeastRows = 64;

// The part of a panel that a worker packs at a time: kPackWidth rows of op(A) or columns of op(B) if these are
// contiguous along k, else kPackDepth positions of k for all rows or columns.
constexpr std::int64_t kPackWidth = 96, kPackDepth = 48;
static_assert(kPackWidth % kTileRows == 0 && kPackWidth % kTileCols == 0 && kPackDepth % kAmxDepth == 0);
static_assert(kPackWidth % kAmxRows == 0 && kPackWidth % kAmxCols == 0);

// Equal parts of `size`, none above `most`, in multiples of `unit`.
std::int64_t equal_parts(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return round_up(ceil_div(size, ceil_div(size, most)), unit);
}

std::int64_t block_of(std::int64_t depth, PackedUnit unit) {
  return unit == PackedUnit::amx ? equal_parts(depth, kAmxBlock, kAmxDepth) : equal_parts(depth, kBlock, 8);
}

// The depth along k, counted in the unit's elements.
std::int64_t depth_of(std::int64_t k, PackedUnit unit) {
  return round_up(unit == PackedUnit::f32 ? k : ceil_div(k, 2), tile_shape(unit).depth);
}

// A panel to be packed, divided into parts for workers.
struct PackJob {
  Matrix matrix;
  bool k_contiguous;
  PackedUnit unit;
  std::int64_t first, count, k, depth;
  std::int64_t padded;  // count, rounded up to whole packed rows or columns
  std::int64_t block;
  float* to;

  std::int64_t wide_parts() const {
    return k_contiguous ? ceil_div(count, kPackWidth) : std::min<std::int64_t>(count, 1);
  }
  std::int64_t block_parts() const { return k_contiguous ? 1 : ceil_div(block, kPackDepth); }
  std::int64_t parts() const { return wide_parts() * ceil_div(depth, block) * block_parts(); }

  template <class Pack>
  void run(std::int64_t part, const Pack& pack) const {
    const std::int64_t at = k_contiguous ? part % wide_parts() * kPackWidth : 0;
    const std::int64_t width = k_contiguous ? std::min(kPackWidth, count - at) : count;
    const std::int64_t in_depth = part / wide_parts();
    const std::int64_t begin = in_depth / block_parts() * block, block_depth = std::min(block, depth - begin);
    const std::int64_t step = k_contiguous ? block_depth : kPackDepth, k_in_block = in_depth % block_parts() * step;
    if (k_in_block >= block_depth) return;
    const std::int64_t length = std::min(step, block_depth - k_in_block);
    pack(PackSource{matrix, k_contiguous, unit, first + at, width, k + begin + k_in_block, length},
         PackTarget{to + padded * begin + at * block_depth, block_depth, k_in_block});
  }
};

float* floats(std::byte* bytes) {
  return reinterpret_cast<float*>(bytes);
}

}  // namespace

// The addresses of packed panels. A panel consists of blocks of k, a block of strips.
struct PackedGemm::Buffers {
  float* a;
  float* b;     // of this panel, or all of B
  float* sums;  // fp32 sums of the panel of C, if neither C nor the slices can hold them
};

struct PackedGemm::Panel {
  std::int64_t row, rows, col, cols, k, depth;
  bool last;                                    // of the panels along k
  std::int64_t slice_rows = 0, slice_cols = 0;  // taken by a worker at a time
};

// The rows and columns of a slice of a panel, or of some of the slice's rows.
struct PackedGemm::Slice {
  std::int64_t row, rows, col, cols;
  const float* bias;  // of its columns; null if none is added
  float* sums;        // if sums_in_slices()
  float* own_b;       // if the worker packs its columns of B
};

PackedGemm::PackedGemm(const GemmShape& shape, const GemmArguments& arguments, std::int64_t slice_rows,
                       std::int64_t slice_cols, PackedUnit unit)
    : shape_(shape),
      arguments_(arguments),
      unit_(unit),
      tile_(tile_shape(unit)),
      by_strips_(unit == PackedUnit::amx),
      depth_(depth_of(shape.k, unit)),
      block_(block_of(depth_, unit)),
      panel_rows_(equal_parts(shape.m, kPanelRows, tile_.rows)),
      panel_cols_(equal_parts(shape.n, kPanelCols, tile_.cols)),
      panel_depth_(kPackedBlocks * block_) {
  rows_at_once_ = slice_rows >= shape.m && shape.m <= kPackedRowsAtOnce && arguments.packed_b == nullptr;
  slice_rows_ = round_up(std::min(slice_rows, panel_rows_), tile_.rows);
  slice_cols_ = round_up(std::min(slice_cols, rows_at_once_ ? kMostColsAtOnce : panel_cols_), tile_.cols);
  // If so, no other worker waits for the columns of a panel.
  if (rows_at_once_ && (sums_in_c() || sums_in_slices())) panel_cols_ = round_up(shape.n, tile_.cols);
}

void PackedGemm::divide(Panel& panel, int threads) const {
  panel.slice_rows = slice_rows_, panel.slice_cols = slice_cols_;
  const auto few = [&] {
    const std::int64_t slices = ceil_div(panel.rows, panel.slice_rows) * ceil_div(panel.cols, panel.slice_cols);
    return slices < std::int64_t{2} * threads;
  };
  while (few() && panel.slice_cols > kLeastCols) panel.slice_cols = round_up(panel.slice_cols / 2, tile_.cols);
  while (few() && panel.slice_rows > kLeastRows) panel.slice_rows = round_up(panel.slice_rows / 2, tile_.rows);
}

std::int64_t PackedGemm::rows_together() const {
  return by_strips_ ? tile_.rows : slice_rows_;
}
std::int64_t PackedGemm::own_b_depth() const {
  return std::min(by_strips_ ? panel_depth_ : block_, depth_);
}
bool PackedGemm::sums_in_c() const {
  return arguments_.c.dtype == DType::f32;
}
bool PackedGemm::sums_in_slices() const {
  return !sums_in_c() && depth_ <= panel_depth_;
}

Scratch PackedGemm::scratch() const {
  const std::int64_t depth = std::min(panel_depth_, depth_);
  const std::size_t a = ScratchParts::bytes(panel_rows_ * depth);
  const bool shared_b = arguments_.packed_b == nullptr && !rows_at_once_;
  const std::size_t b = shared_b ? ScratchParts::bytes(panel_cols_ * depth) : 0;
  const std::size_t sums = sums_in_c() || sums_in_slices() ? 0 : ScratchParts::bytes(panel_rows_ * panel_cols_);
  const std::size_t slice = sums_in_slices() ? ScratchParts::bytes(rows_together() * slice_cols_) : 0;
  const std::size_t own_b = rows_at_once_ ? ScratchParts::bytes(slice_cols_ * own_b_depth()) : 0;
  return {slice + ScratchParts::bytes(slice_cols_) + own_b, a + b + sums};
}

void PackedGemm::run(Workers& workers) const {
  ScratchParts parts(workers.shared_scratch());
  const std::int64_t depth = std::min(panel_depth_, depth_);
  const bool shared_b = arguments_.packed_b == nullptr && !rows_at_once_;
  Buffers buffers{};
  buffers.a = parts.floats(panel_rows_ * depth);
  buffers.b = shared_b ? parts.floats(panel_cols_ * depth) : nullptr;
  buffers.sums = sums_in_c() || sums_in_slices() ? nullptr : parts.floats(panel_rows_ * panel_cols_);
  const bool one_depth = depth_ <= panel_depth_, one_col = shape_.n <= panel_cols_;
  for (std::int64_t row = 0; row < shape_.m; row += panel_rows_) {
    for (std::int64_t col = 0; col < shape_.n; col += panel_cols_) {
      for (std::int64_t k = 0; k < depth_; k += panel_depth_) {
        Panel panel{row,
                    std::min(panel_rows_, shape_.m - row),
                    col,
                    std::min(panel_cols_, shape_.n - col),
                    k,
                    std::min(panel_depth_, depth_ - k),
                    k + panel_depth_ >= depth_};
        divide(panel, workers.threads());
        const bool same_a = one_depth && col > 0, same_b = !shared_b || (one_depth && one_col && row > 0);
        pack(workers, panel, buffers, !same_a, !same_b);
        multiply(workers, panel, buffers);
      }
    }
  }
}

void PackedGemm::pack(Workers& workers, const Panel& panel, const Buffers& buffers, bool a, bool b) const {
  const auto job = [&](const Matrix& matrix, bool k_contiguous, std::int64_t first, std::int64_t count,
                       std::int64_t unit, float* to) {
    return PackJob{matrix, k_contiguous, unit_, first, count, panel.k, panel.depth, round_up(count, unit), block_, to};
  };
  const PackJob a_job = job(arguments_.a, !shape_.trans_a, panel.row, a ? panel.rows : 0, tile_.rows, buffers.a);
  const PackJob b_job = job(arguments_.b, shape_.trans_b, panel.col, b ? panel.cols : 0, kLanes, buffers.b);
  const std::int64_t a_parts = a_job.parts();
  workers.run(a_parts + b_job.parts(), [&](std::int64_t index) {
    if (index < a_parts)
      a_job.run(index, pack_a);
    else
      b_job.run(index - a_parts, pack_b);
  });
}

void PackedGemm::multiply(Workers& workers, const Panel& panel, const Buffers& buffers) const {
  const std::int64_t slices = ceil_div(panel.rows, panel.slice_rows) * ceil_div(panel.cols, panel.slice_cols);
  workers.run(slices, [&](std::int64_t index) { multiply_slice(panel, buffers, index, workers.worker_scratch()); });
}

void PackedGemm::multiply_slice(const Panel& panel, const Buffers& buffers, std::int64_t index,
                                std::byte* scratch) const {
  // Consecutive slices share columns, so that B's strips stay in the cache.
  const std::int64_t row_slices = ceil_div(panel.rows, panel.slice_rows);
  Slice slice{};
  slice.row = index % row_slices * panel.slice_rows, slice.col = index / row_slices * panel.slice_cols;
  slice.rows = std::min(panel.slice_rows, panel.rows - slice.row);
  slice.cols = std::min(panel.slice_cols, panel.cols - slice.col);

  ScratchParts parts(scratch);
  float* const bias_floats = parts.floats(slice_cols_);
  if (arguments_.bias && panel.k == 0) {
    with_element_type(arguments_.bias->dtype, [&]<class T>(std::type_identity<T>) {
      convert_rows(elements<T>(*arguments_.bias) + panel.col + slice.col, 0, 1, slice.cols, bias_floats, 0);
    });
    slice.bias = bias_floats;
  }
  if (sums_in_slices()) slice.sums = parts.floats(rows_together() * slice_cols_);
  if (rows_at_once_) slice.own_b = parts.floats(slice_cols_ * own_b_depth());
  if (!by_strips_) return multiply_rows(panel, buffers, slice);

  if (rows_at_once_) {
    for (std::int64_t k = 0; k < panel.depth; k += block_) pack_own_b(panel, slice, k);
  }
  std::optional<AmxTiles> tiles;
  if (unit_ == PackedUnit::amx) tiles.emplace();
  Slice strip = slice;
  for (std::int64_t r = 0; r < slice.rows; r += rows_together()) {
    strip.row = slice.row + r, strip.rows = std::min(rows_together(), slice.rows - r);
    multiply_rows(panel, buffers, strip);
  }
}

// Packs the slice's columns of B in the block at k, for this worker only; returns their address.
const float* PackedGemm::pack_own_b(const Panel& panel, const Slice& slice, std::int64_t k) const {
  const std::int64_t depth = std::min(block_, panel.depth - k);
  float* const to = slice.own_b + (by_strips_ ? round_up(slice.cols, kLanes) * k : 0);
  pack_b({arguments_.b, shape_.trans_b, unit_, panel.col + slice.col, slice.cols, panel.k + k, depth}, {to, depth, 0});
  return to;
}

void PackedGemm::multiply_rows(const Panel& panel, const Buffers& buffers, const Slice& slice) const {
  const std::int64_t row = slice.row, rows = slice.rows, col = slice.col, cols = slice.cols;
  const std::int64_t c_row = panel.row + row, c_col = panel.col + col;
  const float* const bias = slice.bias;
  const float* const own_b = slice.own_b;
  const Matrix& c = arguments_.c;
  float* sums = slice.sums;
  std::int64_t stride = slice_cols_;
  if (sums_in_c()) {
    sums = c.f32(c_row) + c_col, stride = c.row_stride;
  } else if (!sums_in_slices()) {
    sums = buffers.sums + row * panel_cols_ + col, stride = panel_cols_;
  }
  if (!sums_in_c() && shape_.accumulate && panel.k == 0) {
    convert_rows(c.b16(c_row) + c_col, c.row_stride, rows, cols, sums, stride);
  }

  const std::int64_t a_rows = round_up(panel.rows, tile_.rows);
  const bool given_b = arguments_.packed_b != nullptr;
  // The packed columns that contain the slice's; the slice begins at column b_col.
  const std::int64_t b_cols = round_up(own_b != nullptr ? cols : given_b ? shape_.n : panel.cols, kLanes);
  const std::int64_t b_col = own_b != nullptr ? 0 : given_b ? c_col : col;
  const float* const b_floats = own_b != nullptr ? own_b
                                : given_b        ? floats(arguments_.packed_b) + b_cols * panel.k
                                                 : buffers.b;
  for (std::int64_t k = 0; k < panel.depth; k += block_) {
    TileArguments tile;
    tile.unit = unit_;
    tile.depth = std::min(block_, panel.depth - k);
    tile.ldc = stride;
    tile.add = shape_.accumulate || panel.k + k > 0;
    const float* const a = buffers.a + a_rows * k + row * tile.depth;
    const bool packs = own_b != nullptr && !by_strips_;
    const float* const b = packs ? pack_own_b(panel, slice, k) : b_floats + b_cols * k + b_col * tile.depth;
    const auto multiply_at = [&](std::int64_t r, std::int64_t j) {
      tile.a = a + r * tile.depth;
      tile.rows = std::min(tile_.rows, rows - r);
      tile.b = b + j * tile.depth;
      tile.cols = std::min(tile_.cols, cols - j);
      tile.b_cols = std::min(tile_.cols, b_cols - b_col - j);
      tile.c = sums + r * stride + j;
      tile.bias = bias != nullptr && k == 0 ? bias + j : nullptr;
      multiply_tile(tile);
    };
    if constexpr (kStripOfAStays) {
      for (std::int64_t r = 0; r < rows; r += tile_.rows) {
        for (std::int64_t j = 0; j < cols; j += tile_.cols) multiply_at(r, j);
      }
    } else {
      for (std::int64_t j = 0; j < cols; j += tile_.cols) {
        for (std::int64_t r = 0; r < rows; r += tile_.rows) multiply_at(r, j);
      }
    }
  }

  if (!sums_in_c() && panel.last) convert_rows(sums, stride, rows, cols, c.b16(c_row) + c_col, c.row_stride);
}

std::int64_t packed_block(PackedUnit unit) {
  if (unit == PackedUnit::f32) return kBlock;
  return 2 * (unit == PackedUnit::amx ? kAmxBlock : kBlock);
}

DType packed_b_dtype(PackedUnit unit) {
  return unit == PackedUnit::f32 ? DType::f32 : DType::bf16;
}

std::int64_t packed_b_elements(const GemmShape& shape) {
  return round_up(shape.n, kLanes) * round_up(shape.k, 2 * kAmxDepth);
}

void pack_gemm_b(Workers& workers, const GemmShape& shape, const Matrix& b, std::byte* to, PackedUnit unit) {
  const std::int64_t depth = depth_of(shape.k, unit), block = block_of(depth, unit);
  const PackJob job{b, shape.trans_b, unit, 0, shape.n, 0, depth, round_up(shape.n, kLanes), block, floats(to)};
  workers.run(job.parts(), [&](std::int64_t index) { job.run(index, pack_b); });
}

}  // namespace weft::cpu
