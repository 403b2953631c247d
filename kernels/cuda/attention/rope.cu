// Rotary position embedding; see attention.h. A block first computes the sines and cosines of its rows' angles, which
// all heads share. Meanwhile the first pairs are loaded.
#include <algorithm>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kAngles = 1024;   // the most in a block
constexpr int kRopeUnroll = 2;  // pieces of a thread, all loaded before any is stored

struct SineCosine {
  float sine, cosine;
};

// Like the CPU's sine_cosine: reduction by multiples of π/2 in double, so that positions in the hundreds of thousands
// keep their accuracy without the library's slow path, then Taylor polynomials on |r| ≤ π/4.
__device__ SineCosine sine_cosine(float x) {
  constexpr double kTwoOverPi = 0.63661977236758134308, kHalfPi = 1.57079632679489661923;
  constexpr double kRound = 6755399441055744.0;  // 1.5·2⁵²
  const auto wide = static_cast<double>(x);
  const double shifted = fma(wide, kTwoOverPi, kRound), n = shifted - kRound;
  const auto r = static_cast<float>(fma(-n, kHalfPi, wide));
  const int quadrant = __double2loint(shifted);  // the last bits of n are in the mantissa's last bits
  const float r2 = r * r;
  float s = 2.7557319e-6F;
  s = s * r2 - 1.9841270e-4F;
  s = s * r2 + 8.3333333e-3F;
  s = s * r2 - 1.6666667e-1F;
  s = s * r2 * r + r;
  float c = -2.7557319e-7F;
  c = c * r2 + 2.4801587e-5F;
  c = c * r2 - 1.3888889e-3F;
  c = c * r2 + 4.1666667e-2F;
  c = c * r2 - 0.5F;
  c = c * r2 + 1.0F;
  const bool odd = (quadrant & 1) != 0;
  const float sine = odd ? c : s, cosine = odd ? s : c;
  return {(quadrant & 2) != 0 ? -sine : sine, ((quadrant + 1) & 2) != 0 ? -cosine : cosine};
}

// The part of one block: for `rows` rows, pairs [blockIdx.y·pairs, (blockIdx.y + 1)·pairs) of all heads.
struct Tile {
  std::int64_t rows;
  int pairs;
};

// Items are (row, head, piece of a half head).
template <class T, int kWidth>
__global__ void __launch_bounds__(kElementwiseThreads)
    rope_kernel(const float* frequencies, int heads, int half, std::int64_t seq_len, const std::int64_t* offset,
                bool inverse, float factor, Stream<T> x, std::int64_t all_rows, Tile tile) {
  __shared__ __align__(16) float sines[kAngles], cosines[kAngles];
  const std::int64_t first_row = blockIdx.x * tile.rows;
  const int first_pair = static_cast<int>(blockIdx.y) * tile.pairs;
  const unsigned pairs = min(tile.pairs, half - first_pair), pieces = pairs / kWidth, per_row = heads * pieces;
  const auto rows = static_cast<unsigned>(min(tile.rows, all_rows - first_row)), items = rows * per_row;

  Raw<T, kWidth> raw_a[kRopeUnroll], raw_b[kRopeUnroll];
  T* places[kRopeUnroll];
  int angles[kRopeUnroll];
  const auto fetch_from = [&](unsigned first) {
#pragma unroll
    for (int u = 0; u < kRopeUnroll; ++u) {
      const unsigned item = first + u * kElementwiseThreads + threadIdx.x;
      if (item >= items) continue;
      const unsigned row = item / per_row, of_row = item - row * per_row, head = of_row / pieces;
      const unsigned pair = (of_row - head * pieces) * kWidth;
      angles[u] = static_cast<int>(row * pairs + pair);
      places[u] = x.at(first_row + row, static_cast<std::int64_t>(head) * 2 * half + first_pair + pair);
      raw_a[u] = fetch<kWidth>(places[u]);
      raw_b[u] = fetch<kWidth>(places[u] + half);
    }
  };
  fetch_from(0);
  const std::int64_t first_place = offset != nullptr ? *offset : 0;
  for (unsigned i = threadIdx.x; i < rows * pairs; i += kElementwiseThreads) {
    const unsigned row = i / pairs, pair = i - row * pairs;
    const auto position = static_cast<float>(place_of(first_row + row, seq_len).piece + first_place);
    const SineCosine turn = sine_cosine(frequencies[first_pair + pair] * position);
    cosines[i] = turn.cosine * factor;
    sines[i] = (inverse ? -turn.sine : turn.sine) * factor;
  }
  __syncthreads();
  for (unsigned first = 0; first < items;) {
#pragma unroll
    for (int u = 0; u < kRopeUnroll; ++u) {
      if (first + u * kElementwiseThreads + threadIdx.x >= items) continue;
      float a[kWidth], b[kWidth], left[kWidth], right[kWidth], cosine[kWidth], sine[kWidth];
      unpack(raw_a[u], a);
      unpack(raw_b[u], b);
      load(cosines + angles[u], cosine);
      load(sines + angles[u], sine);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        left[i] = a[i] * cosine[i] - b[i] * sine[i];
        right[i] = b[i] * cosine[i] + a[i] * sine[i];
      }
      store(places[u], left);
      store(places[u] + half, right);
    }
    first += kRopeUnroll * kElementwiseThreads;
    if (first < items) fetch_from(first);
  }
}

}  // namespace

void rope(const Launch& launch, const float* frequencies, std::int64_t heads, std::int64_t seq_len,
          const std::int64_t* offset, bool inverse, const Matrix& x, float factor) {
  if (x.rows == 0 || heads == 0 || x.cols < 2 * heads) return;
  const std::int64_t half = x.cols / heads / 2, pairs = std::min<std::int64_t>(half, kAngles);
  with_pieces(x.dtype, vectorizable(x) && half % kVector == 0, [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const std::int64_t per_row = heads * (pairs / kWidth);
    const std::int64_t rows = std::clamp<std::int64_t>(kRopeUnroll * kElementwiseThreads / per_row, 1, kAngles / pairs);
    const dim3 blocks(blocks_for(x.rows, rows), blocks_for(half, pairs));
    start("rope", launch, rope_kernel<T, kWidth>, blocks, kElementwiseThreads, 0, frequencies, static_cast<int>(heads),
          static_cast<int>(half), seq_len, offset, inverse, factor, stream_of<T>(x), x.rows,
          Tile{rows, static_cast<int>(pairs)});
  });
}

}  // namespace weft::cuda
