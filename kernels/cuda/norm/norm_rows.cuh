// Shared by the kernels of layer and RMS normalisation: which threads work on a row, and how they hold it. LayerNorm is
// "centered": it has a bias and a mean; RMSNorm has neither, its mean is 0.
//
// Each row belongs to one team of threads. If rows allow 16-byte accesses and aren't too long, the team holds its row
// in registers; other rows are read from memory in every pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda::norm {

inline constexpr int kMostThreads = 512, kMostWarps = kMostThreads / kWarp;

/// A block's threads: `across` threads (whole warps) work on one row, `down` rows at a time.
struct Teams {
  unsigned across, down;

  dim3 threads() const { return {across, down}; }
  unsigned blocks(std::int64_t rows) const { return blocks_for(rows, down); }
};

/// Teams for rows of `items` pieces of work in blocks of about `threads` threads.
inline Teams teams_for(std::int64_t items, unsigned threads) {
  const auto across = static_cast<unsigned>(
      std::clamp<std::int64_t>((items + kWarp - 1) / kWarp * kWarp, kWarp, static_cast<std::int64_t>(kMostThreads)));
  return {across, std::max(1U, threads / across)};
}

/// In teams of several warps, each thread holds this many vectors of a row. If threads hold another number of vectors,
/// except 0, a team is one warp, which needn't wait for others; the number is then the least that holds the row.
inline constexpr int kTeamVectors = 4;
template <int kVectors>
inline constexpr bool kOneWarp = kVectors != 0 && kVectors != kTeamVectors;

/// The column of a thread's k-th vector in its row.
template <int kVectors>
__device__ inline int column_of(int k) {
  const int across = kOneWarp<kVectors> ? kWarp : static_cast<int>(blockDim.x);
  return (k * across + static_cast<int>(threadIdx.x)) * kVector;
}
/// Whether the k-th vector is within a row of `cols` columns. In a one-warp team, only the last vector may be outside.
template <int kVectors>
__device__ inline bool is_held(int k, int cols) {
  return (kOneWarp<kVectors> && k + 1 < kVectors) || column_of<kVectors>(k) < cols;
}

/// Every thread of a team gets the sum over the team. All threads of the block must call, unless teams are one warp.
/// `shared` holds kMostWarps numbers and may be reused at once.
template <bool kWarps>
__device__ inline float team_sum(float x, float* shared) {
  x = warp_sum(x);
  if (!kWarps || blockDim.x == kWarp) return x;
  const unsigned warps = blockDim.x / kWarp;
  float* of_team = shared + threadIdx.y * warps;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_team[threadIdx.x / kWarp] = x;
  __syncthreads();
  float total = of_team[0];
#pragma unroll 1
  for (unsigned warp = 1; warp < warps; ++warp) total += of_team[warp];
  return total;
}

/// Makes the compiler treat the values as new numbers that are available here.
template <class T>
__device__ inline void renew(Raw<T, kVector>& raw) {
#pragma unroll
  for (uint4& word : reinterpret_cast<uint4(&)[Raw<T, kVector>::kWords]>(raw.words))
    asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
}

/// The team's row. This thread has some pieces of kWidth elements: kVectors pieces in registers or, if kVectors is 0,
/// any number of pieces in memory.
template <class T, int kVectors, int kWidth>
class Row {
 public:
  static_assert(kWidth == kVector);
  __device__ Row(const T* from, int cols) : cols_(cols) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int column = column_of<kVectors>(k);
      if constexpr (kOneWarp<kVectors>) {
        // Unconditional: an absent vector is loaded, but not visited.
        values_[k] = fetch<kWidth>(from + (k + 1 < kVectors ? column : min(column, cols - kVector)));
      } else if (column < cols) {
        values_[k] = fetch<kWidth>(from + column);
      }
    }
  }
  /// Calls body(first column, float[kWidth]) for the thread's pieces.
  template <class Body>
  __device__ void visit(const Body& body) {
    // The last vector comes first: only it may be absent, and after its branch the compiler delays no load.
#pragma unroll
    for (int k = kVectors - 1; k >= 0; --k) {
      if (!is_held<kVectors>(k, cols_)) continue;
      float values[kWidth];
      renew(values_[k]);  // otherwise the compiler keeps all of them unpacked, for which there aren't enough registers
      unpack(values_[k], values);
      body(column_of<kVectors>(k), values);
    }
  }
  /// Like the function above; then writes the numbers, as `body` left them, to `to`.
  template <class Body>
  __device__ void visit_and_store(T* to, const Body& body) {
    visit([&](int column, auto& values) {
      body(column, values);
      store(to + column, values);
    });
  }

 private:
  Raw<T, kWidth> values_[kVectors];
  int cols_;
};

template <class T, int kWidth>
class Row<T, 0, kWidth> {
 public:
  __device__ Row(const T* from, int cols) : from_(from), cols_(cols) {}
  template <class Body>
  __device__ void visit(const Body& body) const {
    const int step = static_cast<int>(blockDim.x) * kWidth;
    for (int column = static_cast<int>(threadIdx.x) * kWidth; column < cols_; column += step) {
      float values[kWidth];
      load(from_ + column, values);
      body(column, values);
    }
  }
  template <class Body>
  __device__ void visit_and_store(T* to, const Body& body) const {
    visit([&](int column, auto& values) {
      body(column, values);
      store(to + column, values);
    });
  }

 private:
  const T* from_;
  int cols_;
};

/// The type of the elements, and whether the norm is centered.
template <class T, bool kCentered>
struct Kind {};

/// Calls body(Kind<T, kCentered>{}).
template <class Body>
void with_kind(DType dtype, bool centered, const Body& body) {
  with_float_type(dtype, [&]<class T>(T*) { centered ? body(Kind<T, true>{}) : body(Kind<T, false>{}); });
}

template <int kNumber>
using Number = std::integral_constant<int, kNumber>;

/// Calls body(Number<n>{}), n from 1 to kMost.
template <int kMost, class Body>
void with_number(int n, const Body& body) {
  if constexpr (kMost > 1) {
    if (n < kMost) return with_number<kMost - 1>(n, body);
  }
  body(Number<kMost>{});
}

/// Calls body(Number<0>, Number<width>, teams), with teams for kernels that pass over their rows once.
template <class Body>
void with_passing_rows(std::int64_t cols, bool wide, const Body& body) {
  constexpr unsigned kThreads = 256;
  if (wide) return body(Number<0>{}, Number<kVector>{}, teams_for((cols + kVector - 1) / kVector, kThreads));
  return body(Number<0>{}, Number<1>{}, teams_for((cols + 3) / 4, kThreads));
}

}  // namespace weft::cuda::norm
