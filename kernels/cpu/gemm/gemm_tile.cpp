// A tile of C in registers; see gemm_tile.h.
#include "kernels/cpu/gemm/gemm_tile.h"

#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Rows of B are prefetched into the first-level cache this many rows ahead, unless they are there anyway.
#if defined(__AVX512F__)
constexpr std::int64_t kAhead = 8;
#else
constexpr std::int64_t kAhead = 0;
#endif

// Broadcasts an element of A for several multiplications: if each read it, two loads a cycle would bound the loop.
inline Floats element(const float* from) {
  return kept_in_register(broadcast(*from));
}

template <int kVectors, bool kPairs>
void multiply(const TileArguments& tile) {
  constexpr std::int64_t kRows = kTileRows;
  Floats sums[kRows][kVectors] = {};
  float* const c = tile.c;
  const bool whole = tile.rows == kRows && tile.cols == kVectors * kLanes;
  if (whole) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * tile.ldc + v * kLanes, 1);
    }
  }
  const float* a = tile.a;
  const float* b = tile.b;
  LinesAhead ahead = tile.ahead != nullptr ? *tile.ahead : LinesAhead{};
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < tile.depth; ++k) {
    if (k % 2 == 0) ahead.fetch();
    Floats right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      right[v] = load(b + v * kLanes);
      if (kAhead > 0) __builtin_prefetch(b + kAhead * tile.b_cols + v * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats left = element(a + r);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kPairs) {
          sums[r][v] = multiply_add_pairs(left, right[v], sums[r][v]);
        } else {
          sums[r][v] += left * right[v];
        }
      }
    }
    a += kTileRows;
    b += tile.b_cols;
  }
  if (tile.ahead != nullptr) *tile.ahead = ahead;
  const float* bias = tile.bias;
  if (whole) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        float* to = c + r * tile.ldc + v * kLanes;
        Floats value = tile.add ? load(to) + sums[r][v] : sums[r][v];
        if (bias != nullptr) value += load(bias + v * kLanes);
        store(to, value);
      }
    }
    return;
  }
  alignas(64) float edge[kRows][kVectors * kLanes];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) store(edge[r] + v * kLanes, sums[r][v]);
  }
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    float* to = c + r * tile.ldc;
    for_vectors(tile.cols, [&](std::int64_t i, auto lanes) {
      Floats value = lanes.load(edge[r] + i);
      if (tile.add) value = lanes.load(to + i) + value;
      if (bias != nullptr) value += lanes.load(bias + i);
      lanes.store(to + i, value);
    });
  }
}

template <bool kPairs>
void multiply(const TileArguments& tile) {
  if (tile.b_cols == kTileCols) return multiply<3, kPairs>(tile);
  if (tile.b_cols == 2 * kLanes) return multiply<2, kPairs>(tile);
  multiply<1, kPairs>(tile);
}

}  // namespace

void multiply_tile(const TileArguments& tile) {
  if constexpr (kHasAmx) {
    if (tile.unit == PackedUnit::amx) return multiply_amx_tile(tile);
  }
  if constexpr (kHasPairs) {
    if (tile.unit == PackedUnit::pairs) return multiply<true>(tile);
  }
  multiply<false>(tile);
}

}  // namespace weft::cpu
