// Grouped products; see experts.h. A block computes a square tile of a result in fp32, without tensor cores, unless
// Launch::grouped_mma asks for them and the matrices suit them.
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/experts/group_rows.cuh"
#include "kernels/cuda/vector_access.cuh"

namespace weft::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kTileThreads = 256;
constexpr int kOwnSide = 4, kStep = kTile / kOwnSide;  // a thread has kOwnSide² elements of a tile, kStep apart

// Of an operand, the rows or columns that a tile of the result needs: `count` of them from `first` on.
template <class T>
struct Operand {
  Stream<const T> from;
  std::int64_t first, count;
};

// to[d][i] = element i of the operand at depth `depth` + d; zero outside. Adjacent threads load adjacent elements.
template <bool kAlongDepth, class T>
__device__ void load_slab(const Operand<T>& operand, std::int64_t depth, std::int64_t depths,
                          float (&to)[kDepth][kTile + 1]) {
#pragma unroll
  for (int u = 0; u < kDepth * kTile / kTileThreads; ++u) {
    const int n = u * kTileThreads + static_cast<int>(threadIdx.x);
    const int d = kAlongDepth ? n % kDepth : n / kTile, i = kAlongDepth ? n / kDepth : n % kTile;
    const bool there = depth + d < depths && i < operand.count;
    const std::int64_t at = operand.first + i;
    to[d][i] =
        !there ? 0.0F : to_float(kAlongDepth ? *operand.from.at(at, depth + d) : *operand.from.at(depth + d, at));
  }
}

// A tile of left·right: to[i, j] (+)= Σ_d left(i, d)·right(d, j), d ascending. All threads of the block must call.
template <bool kLeftAlongDepth, bool kRightAlongDepth, class T, class To>
__device__ void multiply_tile(const Operand<T>& left, const Operand<T>& right, std::int64_t depths, To* to,
                              std::int64_t stride, bool accumulate) {
  __shared__ float lefts[kDepth][kTile + 1], rights[kDepth][kTile + 1];
  const int row = static_cast<int>(threadIdx.x) / kStep, col = static_cast<int>(threadIdx.x) % kStep;
  float sums[kOwnSide][kOwnSide] = {};
  for (std::int64_t depth = 0; depth < depths; depth += kDepth) {
    load_slab<kLeftAlongDepth>(left, depth, depths, lefts);
    load_slab<kRightAlongDepth>(right, depth, depths, rights);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float a[kOwnSide], b[kOwnSide];
#pragma unroll
      for (int i = 0; i < kOwnSide; ++i) a[i] = lefts[d][row + i * kStep], b[i] = rights[d][col + i * kStep];
#pragma unroll
      for (int i = 0; i < kOwnSide; ++i) {
#pragma unroll
        for (int j = 0; j < kOwnSide; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwnSide; ++i) {
#pragma unroll
    for (int j = 0; j < kOwnSide; ++j) {
      const int r = row + i * kStep, c = col + j * kStep;
      if (r >= left.count || c >= right.count) continue;
      To* const at = to + r * stride + c;
      *at = from_float<To>(accumulate ? to_float(*at) + sums[i][j] : sums[i][j]);
    }
  }
}

// Block (t, j): tile t of the groups' tiles of rows, columns from j·kTile on.
template <class T, bool kTransB>
__global__ void __launch_bounds__(kTileThreads) grouped_gemm_kernel(Stream<const T> a, Stream<const T> b, GroupRows of,
                                                                    std::int64_t n, std::int64_t k, Stream<T> c) {
  const GroupTile tile = of.tile<kTile>(blockIdx.x);
  if (tile.count <= 0) return;
  const std::int64_t row = of.first(tile.group) + tile.first, col = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const Stream<const T> matrix{b.at(tile.group * (kTransB ? n : k), 0), b.stride};
  multiply_tile<true, kTransB>(Operand<T>{a, row, tile.count}, Operand<T>{matrix, col, n - col}, k, c.at(row, col),
                               c.stride, false);
}

// Block (g·tiles + i, j): rows from i·kTile on and columns from j·kTile on of the gradient of group g.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    grouped_gradient_kernel(Stream<const T> a, Stream<const T> b, GroupRows of, std::int64_t m, std::int64_t n,
                            unsigned tiles, Stream<float> c, bool accumulate) {
  const std::int64_t group = blockIdx.x / tiles, first = of.first(group), rows = of.count(group);
  if (rows == 0 && accumulate) return;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x % tiles) * kTile;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const Stream<const T> left{a.at(first, 0), a.stride}, right{b.at(first, 0), b.stride};
  multiply_tile<false, false>(Operand<T>{left, row, m - row}, Operand<T>{right, col, n - col}, rows,
                              c.at(group * m + row, col), c.stride, accumulate);
}

// Whether the tensor-core kernels can compute these; otherwise the fp32 kernels do.
bool groups_suit_mma(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& c) {
  return launch.grouped_mma && a.dtype == DType::bf16 && vectorizable(a) && vectorizable(b) && vectorizable(c);
}

}  // namespace

void grouped_gemm(const Launch& launch, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                  const Matrix& c, std::int64_t expected) {
  require_one_type(a, b, c);
  if (c.rows == 0 || c.cols == 0) return;
  if (groups_suit_mma(launch, a, b, c)) return mma_grouped_gemm(launch, trans_b, a, b, offsets, c, expected);
  const GroupRows of{offsets.i32(), c.rows, offsets.cols - 1};
  with_float_type(a.dtype, [&]<class T>(T*) {
    const auto kernel = trans_b ? grouped_gemm_kernel<T, true> : grouped_gemm_kernel<T, false>;
    start("grouped_gemm", launch, kernel, dim3(of.tiles(kTile), blocks_for(c.cols, kTile)), kTileThreads, 0,
          stream_of<const T>(a), stream_of<const T>(b), of, c.cols, a.cols, stream_of<T>(c));
  });
}

void grouped_gemm_gradient(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& offsets,
                           const Matrix& c, bool accumulate) {
  require_one_type(a, b);
  if (c.rows == 0 || c.cols == 0) return;
  if (groups_suit_mma(launch, a, b, c)) return mma_grouped_gemm_gradient(launch, a, b, offsets, c, accumulate);
  const GroupRows of{offsets.i32(), a.rows, offsets.cols - 1};
  const unsigned tiles = blocks_for(a.cols, kTile);
  with_float_type(a.dtype, [&]<class T>(T*) {
    start("grouped_gemm_gradient", launch, grouped_gradient_kernel<T>,
          dim3(static_cast<unsigned>(of.groups) * tiles, blocks_for(c.cols, kTile)), kTileThreads, 0,
          stream_of<const T>(a), stream_of<const T>(b), of, a.cols, c.cols, tiles, stream_of<float>(c), accumulate);
  });
}

}  // namespace weft::cuda
