// Grouped products in bf16 on tensor cores (mma.sync), behind Launch::grouped_mma; see experts.h. A block of four warps
// computes a tile of a result from slabs of both operands, which it copies to shared memory while it multiplies the
// slabs before. An element's sum takes 16 products at a time, k ascending, whatever the tile.
#include "kernels/cuda/experts/group_rows.cuh"
#include "kernels/cuda/vector_access.cuh"
#include "kernels/cuda/warp_operations.cuh"

namespace weft::cuda {
namespace {

using Element = __nv_bfloat16;

// A tile has 32·kM rows; each warp has half of its rows and half of its columns. kSlabs are in shared memory at once.
constexpr int kColumns = 128, kDepth = 32, kSlabs = 3;
constexpr int kWarpColumns = kColumns / 2, kMmaThreads = 4 * kWarp;
constexpr int kGradientM = 4;

// Of an operand, the rows or columns that a tile of the result needs: `count` of them from `first` on, or a tile.
struct Operand {
  Stream<const Element> from;
  std::int64_t first, count;
};

// kDepth of the depths of kSide rows or columns of an operand, in shared memory in the order of global memory. The same
// 16 bytes of eight rows are in different banks.
template <bool kAlongDepth, int kSide>
struct Slab {
  static constexpr bool kAlong = kAlongDepth;
  static constexpr int kRows = kAlongDepth ? kSide : kDepth, kCols = kAlongDepth ? kDepth : kSide;
  static constexpr int kStride = kCols + 8, kElements = kRows * kStride;

  // Begins to copy the slab from depth `depth` on, with zeros where the operand or the depths end.
  __device__ static void copy(const Operand& operand, std::int64_t depth, std::int64_t depths, Element* to) {
    constexpr int kChunks = kCols / 8;
#pragma unroll
    for (int u = 0; u < kRows * kChunks / kMmaThreads; ++u) {
      const int n = u * kMmaThreads + static_cast<int>(threadIdx.x), row = n / kChunks, col = n % kChunks * 8;
      const int i = kAlongDepth ? row : col, d = kAlongDepth ? col : row;
      const bool there = i < operand.count && depth + d < depths;
      const std::int64_t at = operand.first + i;
      const Element* const from = kAlongDepth ? operand.from.at(at, depth + d) : operand.from.at(depth + d, at);
      copy_async<16>(to + row * kStride + col, there ? from : operand.from.data, there);
    }
  }
  // Where row or column `i` is at depth d.
  __device__ static int place(int i, int d) {
    return kAlongDepth ? i * kStride + d : d * kStride + i;
  }
  // What this lane addresses of four 8 × 8 matrices: lane l has row l mod 8 of matrix l / 8. kDown: they are rows 0-7
  // and 8-15 of columns 0-7, then of columns 8-15; otherwise columns 0-7 and 8-15 of rows 0-7, then of rows 8-15.
  template <bool kDown>
  __device__ static int lane_place() {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    return kDown ? lane % 16 * kStride + lane / 16 * 8 : (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
  }
  // Operands of a tensor core have neighbours along the depth in a register.
  __device__ static void load(std::uint32_t (&to)[4], const Element* from) {
    kAlongDepth ? load_matrices(to, from) : load_matrices_transposed(to, from);
  }
};

__device__ inline void store_pair(Element* to, float a, float b, bool /*accumulate*/) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}
__device__ inline void store_pair(float* to, float a, float b, bool accumulate) {
  auto* const pair = reinterpret_cast<float2*>(to);
  if (accumulate) a += pair->x, b += pair->y;
  *pair = make_float2(a, b);
}

// A tile of left·right: to[i, j] (+)= Σ_d left(i, d)·right(d, j). All threads of the block must call.
template <int kM, class Left, class Right, class To>
__device__ void multiply_tile(const Operand& left, const Operand& right, std::int64_t depths, To* to,
                              std::int64_t stride, bool accumulate) {
  constexpr int kTiles = kWarpColumns / 8;
  Element* const lefts = dynamic_shared<Element>();
  Element* const rights = lefts + kSlabs * Left::kElements;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = warp / 2 * 16 * kM, col = warp % 2 * kWarpColumns;
  const bool any = row < left.count && col < right.count;  // of the warp's elements are in the result
  const auto copy = [&](std::int64_t depth, int slab) {
    if (depth < depths) {
      Left::copy(left, depth, depths, lefts + slab * Left::kElements);
      Right::copy(right, depth, depths, rights + slab * Right::kElements);
    }
    commit_copies();
  };
#pragma unroll
  for (int slab = 0; slab + 1 < kSlabs; ++slab) copy(slab * kDepth, slab);

  float sums[kM][kTiles][4] = {};
  int slab = 0;
  for (std::int64_t depth = 0; depth < depths; depth += kDepth) {
    wait_for_copies<kSlabs - 2>();
    __syncthreads();
    const int last = slab == 0 ? kSlabs - 1 : slab - 1;  // every warp has multiplied it
    copy(depth + (kSlabs - 1) * kDepth, last);
    if (any) {
      const Element* const a = lefts + slab * Left::kElements + Left::template lane_place<Left::kAlong>();
      const Element* const b = rights + slab * Right::kElements + Right::template lane_place<!Right::kAlong>();
#pragma unroll
      for (int d = 0; d < kDepth; d += 16) {
        std::uint32_t of_left[kM][4];
#pragma unroll
        for (int m = 0; m < kM; ++m) Left::load(of_left[m], a + Left::place(row + m * 16, d));
#pragma unroll
        for (int n = 0; n < kTiles; n += 2) {
          std::uint32_t of_right[4];
          Right::load(of_right, b + Right::place(col + n * 8, d));
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            multiply_add(sums[m][n], of_left[m], of_right[0], of_right[1]);
            multiply_add(sums[m][n + 1], of_left[m], of_right[2], of_right[3]);
          }
        }
      }
    }
    slab = slab + 1 == kSlabs ? 0 : slab + 1;
  }
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + m * 16 + half * 8 + lane / 4;
      if (r >= left.count) continue;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int c = col + n * 8 + lane % 4 * 2;
        if (c < right.count) {
          store_pair(to + r * stride + c, sums[m][n][2 * half], sums[m][n][2 * half + 1], accumulate);
        }
      }
    }
  }
}

template <class Left, class Right>
constexpr std::size_t shared_bytes() {
  return kSlabs * (Left::kElements + Right::kElements) * sizeof(Element);
}

// Block (t, j): tile t of the groups' tiles of rows, columns from j·kColumns on.
template <int kM, bool kTransB>
__global__ void __launch_bounds__(kMmaThreads, 2)
    mma_gemm_kernel(Stream<const Element> a, Stream<const Element> b, GroupRows of, std::int64_t n, std::int64_t k,
                    Stream<Element> c) {
  const GroupTile tile = of.tile<32 * kM>(blockIdx.x);
  if (tile.count <= 0) return;
  const std::int64_t row = of.first(tile.group) + tile.first, col = static_cast<std::int64_t>(blockIdx.y) * kColumns;
  const Stream<const Element> matrix{b.at(tile.group * (kTransB ? n : k), 0), b.stride};
  multiply_tile<kM, Slab<true, 32 * kM>, Slab<kTransB, kColumns>>({a, row, tile.count}, {matrix, col, n - col}, k,
                                                                  c.at(row, col), c.stride, false);
}

// Block (g·tiles + i, j): rows from i·32·kGradientM on and columns from j·kColumns on of the gradient of group g.
__global__ void __launch_bounds__(kMmaThreads, 2)
    mma_gradient_kernel(Stream<const Element> a, Stream<const Element> b, GroupRows of, std::int64_t m, std::int64_t n,
                        unsigned tiles, Stream<float> c, bool accumulate) {
  const std::int64_t group = blockIdx.x / tiles, first = of.first(group), rows = of.count(group);
  if (rows <= 0 && accumulate) return;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x % tiles) * 32 * kGradientM;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kColumns;
  const Stream<const Element> left{a.at(first, 0), a.stride}, right{b.at(first, 0), b.stride};
  multiply_tile<kGradientM, Slab<false, 32 * kGradientM>, Slab<false, kColumns>>(
      {left, row, m - row}, {right, col, n - col}, rows, c.at(group * m + row, col), c.stride, accumulate);
}

template <int kM, bool kTransB>
void start_gemm(const Launch& launch, const Matrix& a, const Matrix& b, const GroupRows& of, const Matrix& c) {
  start("grouped_gemm on tensor cores", launch, mma_gemm_kernel<kM, kTransB>,
        dim3(of.tiles(32 * kM), blocks_for(c.cols, kColumns)), kMmaThreads,
        shared_bytes<Slab<true, 32 * kM>, Slab<kTransB, kColumns>>(), stream_of<const Element>(a),
        stream_of<const Element>(b), of, c.cols, a.cols, stream_of<Element>(c));
}

}  // namespace

void mma_grouped_gemm(const Launch& launch, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                      const Matrix& c, std::int64_t expected) {
  const GroupRows of{offsets.i32(), c.rows, offsets.cols - 1};
  const auto with_height = [&]<int kM>() {
    trans_b ? start_gemm<kM, true>(launch, a, b, of, c) : start_gemm<kM, false>(launch, a, b, of, c);
  };
  // The highest tiles of which a mean group fills two, so that what its last one leaves empty is little.
  const std::int64_t mean = expected / of.groups;
  if (mean >= 256) return with_height.template operator()<4>();
  if (mean >= 128) return with_height.template operator()<2>();
  with_height.template operator()<1>();
}

void mma_grouped_gemm_gradient(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& offsets,
                               const Matrix& c, bool accumulate) {
  const GroupRows of{offsets.i32(), a.rows, offsets.cols - 1};
  const unsigned tiles = blocks_for(a.cols, 32 * kGradientM);
  start("grouped_gemm_gradient on tensor cores", launch, mma_gradient_kernel,
        dim3(static_cast<unsigned>(of.groups) * tiles, blocks_for(c.cols, kColumns)), kMmaThreads,
        shared_bytes<Slab<false, 32 * kGradientM>, Slab<false, kColumns>>(), stream_of<const Element>(a),
        stream_of<const Element>(b), of, a.cols, c.cols, tiles, stream_of<float>(c), accumulate);
}

}  // namespace weft::cuda
