// Strips of A and B; see gemm_pack.h.
#include "kernels/cpu/gemm/gemm_pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/block_transpose.h"
#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/gemm_tile.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// The number of rows of a matrix that are read together.
constexpr std::int64_t kRowsTogether = 8;

// Writes kLanes rows of op(A), beginning at row i, into two strips, or into one if the second has no rows.
class TwoStrips {
  static_assert(kLanes == 2 * kTileRows);

 public:
  TwoStrips(const PackTarget& target, std::int64_t count, std::int64_t i)
      : to_(target.strips + i * target.depth + target.k * kTileRows),
        second_(i + kTileRows < count ? kTileRows * target.depth : 0) {}

  void put(std::int64_t k, Floats value) const {
    const HalfFloats first = lower_half(value), second = upper_half(value);
    std::memcpy(to_ + k * kTileRows, &first, sizeof first);
    if (second_ != 0) std::memcpy(to_ + second_ + k * kTileRows, &second, sizeof second);
  }
  // Prefetches the memory that put(k … k + kRowsTogether) writes.
  void prefetch(std::int64_t k) const {
    for (std::int64_t i = 0; i < kRowsTogether * kTileRows; i += kLanes) {
      __builtin_prefetch(to_ + k * kTileRows + i, 1);
      __builtin_prefetch(to_ + second_ + k * kTileRows + i, 1);
    }
  }

 private:
  float* to_;
  std::int64_t second_;  // distance of the second strip, 0 if there is none
};

// Writes kLanes columns of op(B): a part of a strip of kCols, or the whole of a narrower last strip.
template <std::int64_t kCols>
class PartOfStrip {
 public:
  PartOfStrip(const PackTarget& target, std::int64_t count, std::int64_t i) {
    const std::int64_t begin = i / kCols * kCols;
    cols_ = std::min(kCols, round_up(count - begin, kLanes));
    to_ = target.strips + begin * target.depth + target.k * cols_ + (i - begin);
  }

  void put(std::int64_t k, Floats value) const { store(to_ + k * cols_, value); }
  void prefetch(std::int64_t k) const {
    for (std::int64_t step = 0; step < kRowsTogether; ++step) __builtin_prefetch(to_ + (k + step) * cols_, 1);
  }

 private:
  float* to_;
  std::int64_t cols_;
};

// Distance from the element being read to the element being fetched. In wide parts it is in the same row; in narrow
// parts it is in the next rows, which prefetchers don't predict.
std::int64_t elements_ahead(const PackSource& source) {
  constexpr std::int64_t kCols = 128, kNarrow = 512;
  if (source.count > kNarrow) return kCols;
  return (source.unit == PackedUnit::f32 ? 1 : 2) * kRowsTogether * source.matrix.row_stride;
}

// The values at position k of a strip: either an element of a matrix as a float, …
template <class T>
class Singles {
 public:
  explicit Singles(const PackSource& source)
      : data_(elements<T>(source.matrix)), stride_(source.matrix.row_stride), ahead_(elements_ahead(source)) {}

  // Whether all of a row's positions below k are stored in memory.
  bool reaches(std::int64_t /*k*/) const { return true; }
  // kLanes positions of a row along which k runs, and a single position.
  Floats along(std::int64_t row, std::int64_t k) const { return load(data_ + row * stride_ + k); }
  float at(std::int64_t row, std::int64_t k) const { return static_cast<float>(data_[row * stride_ + k]); }
  // Position k of `count` columns from `col`, where k is a row.
  Floats across(std::int64_t k, std::int64_t col, std::int64_t count) const {
    const T* from = data_ + k * stride_ + col;
    __builtin_prefetch(from + ahead_);
    return count == kLanes ? load(from) : load_partial(from, count);
  }

 private:
  const T* data_;
  std::int64_t stride_, ahead_;
};

// … or two bf16 in the bits of a float.
class Pairs {
 public:
  explicit Pairs(const PackSource& source)
      : data_(source.matrix.b16()),
        stride_(source.matrix.row_stride),
        rows_(source.matrix.rows),
        cols_(source.matrix.cols),
        ahead_(elements_ahead(source)) {}

  bool reaches(std::int64_t k) const { return 2 * k <= cols_; }  // the last may lack a half
  Floats along(std::int64_t row, std::int64_t k) const {
    Floats pairs;
    std::memcpy(&pairs, data_ + row * stride_ + 2 * k, sizeof pairs);
    return pairs;
  }
  float at(std::int64_t row, std::int64_t k) const {
    const bf16* from = data_ + row * stride_;
    const auto element = [&](std::int64_t col) { return col < cols_ ? from[col] : bf16(); };
    const bf16 two[] = {element(2 * k), element(2 * k + 1)};
    float pair = 0;
    std::memcpy(&pair, two, sizeof pair);
    return pair;
  }
  Floats across(std::int64_t k, std::int64_t col, std::int64_t count) const {
    return lanes_cast<Floats>((upper_words(2 * k, col, count) >> 16) | upper_words(2 * k + 1, col, count));
  }

 private:
  Words upper_words(std::int64_t row, std::int64_t col, std::int64_t count) const {
    if (row >= rows_) return Words{};
    const bf16* from = data_ + row * stride_ + col;
    __builtin_prefetch(from + ahead_);
    return lanes_cast<Words>(count == kLanes ? load(from) : load_partial(from, count));
  }

  const bf16* data_;
  std::int64_t stride_, rows_, cols_, ahead_;
};

// `count` rows of op(A) (columns of op(B)) from `row`, contiguous along k; rows from `count` to kLanes are zero.
template <class Values, class Strips>
void pack_transposed(const Values& values, std::int64_t row, std::int64_t count, std::int64_t k, std::int64_t depth,
                     const Strips& strips) {
  std::int64_t i = 0;
  for (; count == kLanes && i + kLanes <= depth && values.reaches(k + i + kLanes); i += kLanes) {
    Floats rows[kLanes];
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) rows[r] = values.along(row + r, k + i);
    transpose(rows);
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) strips.put(i + r, rows[r]);
  }
  for (; i < depth; ++i) {
    Floats value{};
    for (std::int64_t r = 0; r < count; ++r) value[r] = values.at(row + r, k + i);
    strips.put(i, value);
  }
}

template <class Strips, class Values>
void pack(const PackSource& source, const PackTarget& target, const Values& values) {
  const auto strips_at = [&](std::int64_t i) { return Strips(target, source.count, i); };
  const auto count_at = [&](std::int64_t i) { return std::min(kLanes, source.count - i); };
  if (source.k_contiguous) {
    for (std::int64_t i = 0; i < source.count; i += kLanes) {
      pack_transposed(values, source.first + i, count_at(i), source.k, source.depth, strips_at(i));
    }
    return;
  }
  // Rows of the matrix are read from beginning to end, as prefetchers expect. Meanwhile the target of the next columns
  // is fetched: strips are too far apart for prefetchers.
  for (std::int64_t k = 0; k < source.depth; k += kRowsTogether) {
    const std::int64_t end = std::min(k + kRowsTogether, source.depth);
    for (std::int64_t i = 0; i < source.count; i += kLanes) {
      if (i + kLanes < source.count) strips_at(i + kLanes).prefetch(k);
      const auto strips = strips_at(i);
      for (std::int64_t step = k; step < end; ++step) {
        strips.put(step, values.across(source.k + step, source.first + i, count_at(i)));
      }
    }
  }
}

template <class Strips>
void pack(const PackSource& source, const PackTarget& target) {
  if (source.unit != PackedUnit::f32) return pack<Strips>(source, target, Pairs{source});
  with_element_type(source.matrix.dtype,
                    [&]<class T>(std::type_identity<T>) { pack<Strips>(source, target, Singles<T>{source}); });
}

// Rows of op(A) in the order in which AMX reads them.
void pack_amx_rows(const PackSource& source, const PackTarget& target) {
  const Pairs values(source);
  const auto pack_tile = [&](std::int64_t i, std::int64_t k) {
    const std::int64_t row = source.first + i, count = std::min(kLanes, source.count - i);
    Floats rows[kLanes] = {};
    if (!source.k_contiguous) {
#pragma GCC unroll 16
      for (int step = 0; step < kLanes; ++step) rows[step] = values.across(source.k + k + step, row, count);
      transpose(rows);
    } else if (values.reaches(source.k + k + kLanes)) {
      for (std::int64_t r = 0; r < count; ++r) rows[r] = values.along(row + r, source.k + k);
    } else {
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t step = 0; step < kLanes; ++step) rows[r][step] = values.at(row + r, source.k + k + step);
      }
    }
    float* to = target.strips + i / kAmxRows * kAmxRows * target.depth + (target.k + k) * kAmxRows;
    to += i % kAmxRows * kAmxDepth;
    for (const Floats& of_row : rows) store(to, of_row), to += kAmxDepth;
  };
  // In the order of the matrix in memory.
  if (source.k_contiguous) {
    for (std::int64_t i = 0; i < source.count; i += kLanes) {
      for (std::int64_t k = 0; k < source.depth; k += kAmxDepth) pack_tile(i, k);
    }
    return;
  }
  for (std::int64_t k = 0; k < source.depth; k += kAmxDepth) {
    for (std::int64_t i = 0; i < source.count; i += kLanes) pack_tile(i, k);
  }
}

}  // namespace

void pack_a(const PackSource& source, const PackTarget& target) {
  if constexpr (kHasAmx) {
    if (source.unit == PackedUnit::amx) return pack_amx_rows(source, target);
  }
  pack<TwoStrips>(source, target);
}

void pack_b(const PackSource& source, const PackTarget& target) {
  if constexpr (kHasAmx) {
    if (source.unit == PackedUnit::amx) return pack<PartOfStrip<kAmxCols>>(source, target);
  }
  pack<PartOfStrip<kTileCols>>(source, target);
}

}  // namespace weft::cpu
