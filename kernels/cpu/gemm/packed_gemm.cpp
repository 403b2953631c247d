// Panels, strips and slices of the packed matrix product; see packed_gemm.h.
#include "kernels/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/block_transpose.h"
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

// Of the other matrix's rows in a slice of a turned product.
constexpr std::int64_t kTurnedRows = 96;

// Up to so many rows, a worker packs so many columns at a time.
constexpr std::int64_t kFewRows = 512, kFewCols = 96;

// Of products that run together: the last slices of a thread should be short beside all that it takes.
constexpr std::int64_t kSlicesAThread = 8;

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

  std::int64_t slices() const { return ceil_div(rows, slice_rows) * ceil_div(cols, slice_cols); }
};

// What all workers pack of a panel, in numbered parts.
struct PackedGemm::Packing {
  PackJob a, b;

  std::int64_t parts() const { return a.parts() + b.parts(); }
  void run(std::int64_t part) const {
    const std::int64_t of_a = a.parts();
    part < of_a ? a.run(part, pack_a) : b.run(part - of_a, pack_b);
  }
};

// The rows and columns of a slice of a panel, or of some of the slice's rows.
struct PackedGemm::Slice {
  std::int64_t row, rows, col, cols;
  const float* bias;  // of its columns; null if none is added
  float* sums;        // if sums_in_slices()
  float* own;         // if the worker packs its rows of A or its columns of B
};

PackedGemm::PackedGemm(const GemmShape& shape, const GemmArguments& arguments, std::int64_t slice_rows,
                       std::int64_t slice_cols, PackedUnit unit)
    : shape_(shape),
      arguments_(arguments),
      unit_(unit),
      tile_(tile_shape(unit)),
      own_b_(slice_rows >= shape.m && shape.m <= kPackedRowsAtOnce && arguments.packed_b == nullptr),
      depth_(depth_of(shape.k, unit)),
      block_(block_of(depth_, unit)),
      panel_rows_(equal_parts(shape.m, kPanelRows, tile_.rows)),
      panel_cols_(equal_parts(shape.n, kPanelCols, tile_.cols)),
      panel_depth_(kPackedBlocks * block_) {
  by_strips_ = unit == PackedUnit::amx && !few_rows();
  slice_rows_ = round_up(std::min(slice_rows, panel_rows_), tile_.rows);
  slice_cols_ = round_up(std::min(slice_cols, own_b_ ? kMostColsAtOnce : panel_cols_), tile_.cols);
  // If so, no other worker waits for the columns of a panel.
  if (own_b_ && (sums_in_c() || sums_in_slices())) panel_cols_ = round_up(shape.n, tile_.cols);
}

PackedGemm PackedGemm::one_of_several(const GemmShape& shape, const GemmArguments& arguments, PackedUnit unit) {
  if (shape.trans_a) {
    PackedGemm product(shape, arguments, kLeastRows, kPanelCols, unit);
    product.own_a_ = true, product.own_b_ = false;
    product.slice_rows_ = kLeastRows, product.panel_rows_ = round_up(shape.m, kLeastRows);
    return product;
  }
  const bool whole_tiles = shape.n % kLanes == 0 && shape.k % (2 * kAmxDepth) == 0;
  if (unit != PackedUnit::amx || !shape.trans_b || !whole_tiles || shape.m > kFewRows) {
    return {shape, arguments, shape.m, kMostColsAtOnce, unit};
  }
  GemmArguments turned = arguments;
  std::swap(turned.a, turned.b);
  PackedGemm product({shape.n, shape.m, shape.k, false, true}, turned, kTurnedRows, kFewRows, unit);
  product.turned_ = true, product.own_b_ = false, product.by_strips_ = true;
  product.slice_rows_ = kTurnedRows, product.panel_rows_ = round_up(shape.n, kTurnedRows);
  product.panel_depth_ = product.depth_;
  return product;
}

PackedGemm::Panel PackedGemm::panel_at(std::int64_t row, std::int64_t col, std::int64_t k,
                                       std::int64_t least_slices) const {
  Panel panel{row,
              std::min(panel_rows_, shape_.m - row),
              col,
              std::min(panel_cols_, shape_.n - col),
              k,
              std::min(panel_depth_, depth_ - k),
              k + panel_depth_ >= depth_,
              slice_rows_,
              slice_cols_};
  const auto few = [&] { return panel.slices() < least_slices; };
  while (!turned_ && few() && panel.slice_cols > kLeastCols)
    panel.slice_cols = round_up(panel.slice_cols / 2, tile_.cols);
  while (few() && panel.slice_rows > kLeastRows) panel.slice_rows = round_up(panel.slice_rows / 2, tile_.rows);
  return panel;
}

std::int64_t PackedGemm::rows_together() const {
  return by_strips_ ? tile_.rows : slice_rows_;
}
// Whether a worker packs few columns at a time, right before it multiplies all rows by them: then packed columns and
// sums stay in the nearest cache, and all rows of A in the second-level cache.
bool PackedGemm::few_rows() const {
  return own_b_ && shape_.m <= kFewRows && shape_.trans_b;
}
// A worker packs its part block by block, or, if it multiplies strips, for a whole panel: of A the strip's rows.
std::int64_t PackedGemm::own_floats() const {
  if (!own_a_ && !own_b_) return 0;
  const std::int64_t cols = few_rows() ? std::min(slice_cols_, kFewCols) : slice_cols_;
  return std::min(by_strips_ ? panel_depth_ : block_, depth_) * (own_a_ ? rows_together() : cols);
}
bool PackedGemm::shares_b() const {
  return arguments_.packed_b == nullptr && !own_b_;
}
// Gradients that are larger than the caches are written once, since one block of k has all of their sums.
bool PackedGemm::stores_beside_caches() const {
  const Matrix& c = arguments_.c;
  constexpr std::int64_t kVector = kLanes * sizeof(float);
  return own_a_ && unit_ == PackedUnit::amx && !shape_.accumulate && depth_ <= block_ && c.row_stride % kLanes == 0 &&
         reinterpret_cast<std::uintptr_t>(c.data) % kVector == 0;
}
bool PackedGemm::sums_in_c() const {
  return arguments_.c.dtype == DType::f32 && !turned_;
}
bool PackedGemm::sums_in_slices() const {
  return !sums_in_c() && depth_ <= panel_depth_;
}

Scratch PackedGemm::scratch() const {
  const std::int64_t depth = std::min(panel_depth_, depth_);
  const std::size_t a = own_a_ || turned_ ? 0 : ScratchParts::bytes(panel_rows_ * depth);
  const std::size_t b = shares_b() ? ScratchParts::bytes(panel_cols_ * depth) : 0;
  const std::size_t sums = sums_in_c() || sums_in_slices() ? 0 : ScratchParts::bytes(panel_rows_ * panel_cols_);
  const std::size_t slice = sums_in_slices() ? ScratchParts::bytes(rows_together() * slice_cols_) : 0;
  return {slice + ScratchParts::bytes(slice_cols_) + ScratchParts::bytes(own_floats()), a + b + sums};
}

void PackedGemm::run(Workers& workers) const {
  ScratchParts parts(workers.shared_scratch());
  const Buffers buffers = buffers_at(parts);
  const bool one_depth = depth_ <= panel_depth_, one_col = shape_.n <= panel_cols_;
  for (std::int64_t row = 0; row < shape_.m; row += panel_rows_) {
    for (std::int64_t col = 0; col < shape_.n; col += panel_cols_) {
      for (std::int64_t k = 0; k < depth_; k += panel_depth_) {
        const Panel panel = panel_at(row, col, k, std::int64_t{2} * workers.threads());
        const bool same_a = one_depth && col > 0, same_b = one_depth && one_col && row > 0;
        const Packing packing = this->packing(panel, buffers, !same_a, !same_b);
        workers.run(packing.parts(), [&](std::int64_t part) { packing.run(part); });
        workers.run(panel.slices(),
                    [&](std::int64_t index) { multiply_slice(panel, buffers, index, workers.worker_scratch()); });
      }
    }
  }
}

// Products lie one after the other in the parts of one panel: their parts to pack, and their slices, are numbered
// throughout.
void PackedGemm::run_together(Workers& workers, std::span<const PackedGemm> products) {
  struct Place {
    Panel panel;
    Buffers buffers;
    Packing packing;
    std::int64_t parts, slices;  // of all products up to this one
  };
  std::array<Place, kMostTogether> places;
  const std::size_t count = products.size();
  const std::int64_t least_slices = ceil_div(std::int64_t{kSlicesAThread} * workers.threads(), std::ssize(products));
  const PackedGemm& any = products.front();
  for (std::int64_t col = 0; col < any.shape_.n; col += any.panel_cols_) {
    for (std::int64_t k = 0; k < any.depth_; k += any.panel_depth_) {
      ScratchParts scratch(workers.shared_scratch());
      std::int64_t parts = 0, slices = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const Panel panel = products[i].panel_at(0, col, k, least_slices);
        const Buffers buffers = products[i].buffers_at(scratch);
        const Packing packing = products[i].packing(panel, buffers, true, true);
        places[i] = {panel, buffers, packing, parts += packing.parts(), slices += panel.slices()};
      }
      const auto find = [&](std::int64_t index, std::int64_t Place::*end) {
        std::size_t i = 0;
        while (index >= places[i].*end) ++i;
        return i;
      };
      workers.run(parts, [&](std::int64_t index) {
        const Place& place = places[find(index, &Place::parts)];
        place.packing.run(index - (place.parts - place.packing.parts()));
      });
      workers.run(slices, [&](std::int64_t index) {
        const std::size_t i = find(index, &Place::slices);
        const Place& place = places[i];
        products[i].multiply_slice(place.panel, place.buffers, index - (place.slices - place.panel.slices()),
                                   workers.worker_scratch());
      });
    }
  }
}

PackedGemm::Buffers PackedGemm::buffers_at(ScratchParts& parts) const {
  const std::int64_t depth = std::min(panel_depth_, depth_);
  Buffers buffers{};
  if (!own_a_ && !turned_) buffers.a = parts.floats(panel_rows_ * depth);
  if (shares_b()) buffers.b = parts.floats(panel_cols_ * depth);
  if (!sums_in_c() && !sums_in_slices()) buffers.sums = parts.floats(panel_rows_ * panel_cols_);
  return buffers;
}

PackedGemm::Packing PackedGemm::packing(const Panel& panel, const Buffers& buffers, bool a, bool b) const {
  const auto job = [&](const Matrix& matrix, bool k_contiguous, std::int64_t first, std::int64_t count,
                       std::int64_t unit, float* to) {
    return PackJob{matrix, k_contiguous, unit_, first, count, panel.k, panel.depth, round_up(count, unit), block_, to};
  };
  a &= !own_a_ && !turned_, b &= shares_b();
  return {job(arguments_.a, !shape_.trans_a, panel.row, a ? panel.rows : 0, tile_.rows, buffers.a),
          job(arguments_.b, shape_.trans_b, panel.col, b ? panel.cols : 0, kLanes, buffers.b)};
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
  if (own_a_ || own_b_) slice.own = parts.floats(own_floats());
  std::optional<AmxTiles> tiles;
  if (unit_ == PackedUnit::amx) tiles.emplace();
  if (!by_strips_) {
    const std::int64_t step = few_rows() ? kFewCols : slice.cols;
    Slice part = slice;
    for (std::int64_t j = 0; j < slice.cols; j += step) {
      part.col = slice.col + j, part.cols = std::min(step, slice.cols - j);
      if (slice.bias != nullptr) part.bias = slice.bias + j;
      multiply_rows(panel, buffers, part, slice.cols - j - part.cols);
    }
    if (stores_beside_caches()) finish_stores_beside_caches();
    return;
  }
  if (own_b_) pack_own_panel(panel, slice);
  Slice strip = slice;
  for (std::int64_t r = 0; r < slice.rows; r += rows_together()) {
    strip.row = slice.row + r, strip.rows = std::min(rows_together(), slice.rows - r);
    if (own_a_) pack_own_panel(panel, strip);
    multiply_rows(panel, buffers, strip, turned_ ? slice.rows - r - strip.rows : 0);
  }
  if (stores_beside_caches()) finish_stores_beside_caches();
}

// Packs the slice's rows of A or columns of B in the block at k, for this worker only; returns their address.
const float* PackedGemm::pack_own(const Panel& panel, const Slice& slice, std::int64_t k) const {
  const std::int64_t depth = std::min(block_, panel.depth - k), at = panel.k + k;
  float* to = slice.own;
  if (own_a_) {
    if (by_strips_) to += round_up(slice.rows, tile_.rows) * k;
    pack_a({arguments_.a, !shape_.trans_a, unit_, panel.row + slice.row, slice.rows, at, depth}, {to, depth, 0});
  } else {
    if (by_strips_) to += round_up(slice.cols, kLanes) * k;
    pack_b({arguments_.b, shape_.trans_b, unit_, panel.col + slice.col, slice.cols, at, depth}, {to, depth, 0});
  }
  return to;
}

void PackedGemm::pack_own_panel(const Panel& panel, const Slice& slice) const {
  for (std::int64_t k = 0; k < panel.depth; k += block_) pack_own(panel, slice, k);
}

// The lines of the matrix that a worker reads itself, in the block at k.
LinesAhead PackedGemm::lines_ahead(const Panel& panel, const Slice& slice, std::int64_t k) const {
  const Matrix& matrix = turned_ ? arguments_.a : arguments_.b;
  const std::int64_t unit = unit_ == PackedUnit::f32 ? 1 : 2, at_k = unit * (panel.k + k);
  const std::int64_t depth = std::min(unit * std::min(block_, panel.depth - k), shape_.k - at_k);
  const std::int64_t first = turned_ ? panel.row + slice.row : panel.col + slice.col;
  const std::int64_t count = turned_ ? slice.rows : slice.cols;
  const bool k_contiguous = turned_ || shape_.trans_b;
  const auto element = static_cast<std::int64_t>(size_of(matrix.dtype));
  const auto* at = static_cast<const std::byte*>(matrix.data) +
                   (k_contiguous ? first * matrix.row_stride + at_k : at_k * matrix.row_stride + first) * element;
  const auto off = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) % LinesAhead::kLine);
  return {at - off, matrix.row_stride * element, (k_contiguous ? depth : count) * element + off,
          k_contiguous ? count : depth};
}

// C[row, col] = the slice's sums[col, row].
void PackedGemm::store_turned(const Slice& slice) const {
  with_element_type(arguments_.c.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t row = 0; row < slice.cols; row += kLanes) {
      for (std::int64_t col = 0; col < slice.rows; col += kLanes) {
        Floats block[kLanes];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) block[i] = load(slice.sums + (col + i) * slice_cols_ + row);
        transpose(block);
        for (std::int64_t i = 0; i < std::min(kLanes, slice.cols - row); ++i) {
          store(elements<T>(arguments_.c, slice.col + row + i) + slice.row + col, block[i]);
        }
      }
    }
  });
}

void PackedGemm::multiply_rows(const Panel& panel, const Buffers& buffers, const Slice& slice,
                               std::int64_t more) const {
  const std::int64_t row = slice.row, rows = slice.rows, col = slice.col, cols = slice.cols;
  const std::int64_t c_row = panel.row + row, c_col = panel.col + col;
  const float* const bias = slice.bias;
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

  const std::int64_t a_rows = round_up(own_a_ ? rows : panel.rows, tile_.rows), a_row = own_a_ ? 0 : row;
  const bool given_b = arguments_.packed_b != nullptr;
  // The packed columns that contain the slice's; the slice begins at column b_col.
  const std::int64_t b_cols = round_up(own_b_ ? cols : given_b ? shape_.n : panel.cols, kLanes);
  const std::int64_t b_col = own_b_ ? 0 : given_b ? c_col : col;
  const float* const a_floats = own_a_ ? slice.own : buffers.a;
  const float* const b_floats = own_b_    ? slice.own
                                : given_b ? floats(arguments_.packed_b) + b_cols * panel.k
                                          : buffers.b;
  for (std::int64_t k = 0; k < panel.depth; k += block_) {
    TileArguments tile;
    tile.unit = unit_;
    tile.depth = std::min(block_, panel.depth - k);
    tile.ldc = stride;
    tile.add = shape_.accumulate || panel.k + k > 0;
    tile.beside_caches = stores_beside_caches();
    const float* a = a_floats + a_rows * k + a_row * tile.depth;
    const float* b = b_floats + b_cols * k + b_col * tile.depth;
    if (turned_) {
      const Matrix& from = arguments_.a;
      a = reinterpret_cast<const float*>(from.b16(c_row) + 2 * (panel.k + k));
      tile.a_row_bytes = from.row_stride * static_cast<std::int64_t>(size_of(from.dtype));
    }
    const bool packs = (own_a_ || own_b_) && !by_strips_;
    if (packs) (own_a_ ? a : b) = pack_own(panel, slice, k);
    LinesAhead ahead;
    if (turned_ || (packs && own_b_)) {
      if (k + block_ < panel.depth) {
        ahead = lines_ahead(panel, slice, k + block_);
      } else if (more > 0) {
        Slice next = slice;
        if (turned_) {
          next.row += slice.rows, next.rows = std::min(more, slice.rows);
        } else {
          next.col += slice.cols, next.cols = std::min(more, slice.cols);
        }
        ahead = lines_ahead(panel, next, 0);
      }
    }
    tile.ahead = &ahead;
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
    if (kStripOfAStays && !few_rows()) {
      for (std::int64_t r = 0; r < rows; r += tile_.rows) {
        for (std::int64_t j = 0; j < cols; j += tile_.cols) multiply_at(r, j);
      }
    } else {
      for (std::int64_t j = 0; j < cols; j += tile_.cols) {
        for (std::int64_t r = 0; r < rows; r += tile_.rows) multiply_at(r, j);
      }
    }
  }

  if (turned_) return store_turned(slice);
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
