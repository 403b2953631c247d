// Strips of A and B; see gemm_pack.h.
#include "kernels/cpu/gemm_pack.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// So many rows of a matrix are read side by side.
constexpr std::int64_t kRowsTogether = 8;

// Where lane `lane` of a pair's new first (or second) vector comes from when blocks of kBlock × kBlock swap places
// across the diagonal: below kLanes from the first, else from the second.
template <int kBlock, bool kSecond>
constexpr int source_lane(int lane) {
  const bool upper = (lane & kBlock) != 0;
  if constexpr (kSecond) return upper ? lane + int{kLanes} : lane + kBlock;
  return upper ? lane - kBlock + int{kLanes} : lane;
}

template <int kBlock, bool kSecond, std::size_t... kLane>
Floats swapped(Floats a, Floats b, std::index_sequence<kLane...> /*lanes*/) {
  return __builtin_shufflevector(a, b, source_lane<kBlock, kSecond>(static_cast<int>(kLane))...);
}

template <int kBlock>
[[gnu::always_inline]] inline void swap_blocks(Floats (&rows)[kLanes]) {
  constexpr auto kEach = std::make_index_sequence<kLanes>{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kBlock) != 0) continue;
    const Floats a = rows[i], b = rows[i + kBlock];
    rows[i] = swapped<kBlock, false>(a, b, kEach);
    rows[i + kBlock] = swapped<kBlock, true>(a, b, kEach);
  }
}

[[gnu::always_inline]] inline void transpose(Floats (&rows)[kLanes]) {
  if constexpr (kLanes == 16) swap_blocks<8>(rows);
  swap_blocks<4>(rows);
  swap_blocks<2>(rows);
  swap_blocks<1>(rows);
}

// Where kLanes rows of op(A) from i go: into two strips, or one if the second has no rows.
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
  // Has what put(k … k + kRowsTogether) writes fetched.
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

// Where kLanes columns of op(B) go: a third, a half or the whole of a strip's width.
class PartOfStrip {
 public:
  PartOfStrip(const PackTarget& target, std::int64_t count, std::int64_t i) {
    const std::int64_t begin = i / kTileCols * kTileCols;
    cols_ = std::min(kTileCols, round_up(count - begin, kLanes));
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

// kLanes rows of op(A) (columns of op(B)) that are contiguous along k; `count` of them exist, the others are zero.
template <class T, class Strips>
void pack_transposed(const T* from, std::int64_t stride, std::int64_t count, std::int64_t depth, const Strips& strips) {
  std::int64_t k = 0;
  for (; count == kLanes && k + kLanes <= depth; k += kLanes) {
    Floats rows[kLanes];
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) rows[r] = load(from + r * stride + k);
    transpose(rows);
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) strips.put(k + r, rows[r]);
  }
  for (; k < depth; ++k) {
    Floats value{};
    for (std::int64_t r = 0; r < count; ++r) value[r] = static_cast<float>(from[r * stride + k]);
    strips.put(k, value);
  }
}

// kLanes rows of op(A) (columns of op(B)) that are neighbours in memory, at `count` steps along k.
template <class T, class Strips>
void pack_neighbours(const T* from, std::int64_t stride, std::int64_t count, std::int64_t k, std::int64_t steps,
                     const Strips& strips) {
  if (count == kLanes) {
    for (std::int64_t step = 0; step < steps; ++step) strips.put(k + step, load(from + step * stride));
  } else {
    for (std::int64_t step = 0; step < steps; ++step) strips.put(k + step, load_partial(from + step * stride, count));
  }
}

template <class Strips>
void pack(const PackSource& source, const PackTarget& target) {
  const auto strips_at = [&](std::int64_t i) { return Strips(target, source.count, i); };
  const auto pack_as = [&]<class T>(std::type_identity<T>) {
    const std::int64_t stride = source.matrix.row_stride;
    if (source.k_contiguous) {
      for (std::int64_t i = 0; i < source.count; i += kLanes) {
        pack_transposed(elements<T>(source.matrix, source.first + i) + source.k, stride,
                        std::min(kLanes, source.count - i), source.depth, strips_at(i));
      }
      return;
    }
    // Rows of the matrix are read from one end to the other, as prefetchers like it, and where the next columns go is
    // fetched meanwhile: strips lie too far apart for prefetchers to notice.
    for (std::int64_t k = 0; k < source.depth; k += kRowsTogether) {
      const std::int64_t steps = std::min(kRowsTogether, source.depth - k);
      const T* from = elements<T>(source.matrix, source.k + k) + source.first;
      for (std::int64_t i = 0; i < source.count; i += kLanes) {
        if (i + kLanes < source.count) strips_at(i + kLanes).prefetch(k);
        pack_neighbours(from + i, stride, std::min(kLanes, source.count - i), k, steps, strips_at(i));
      }
    }
  };
  with_element_type(pack_as, source.matrix);
}

}  // namespace

void pack_a(const PackSource& source, const PackTarget& target) {
  pack<TwoStrips>(source, target);
}

void pack_b(const PackSource& source, const PackTarget& target) {
  pack<PartOfStrip>(source, target);
}

}  // namespace weft::cpu
