// Rows on their way to the ranks of their experts, and back; see kernels/row_moves.h.
#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/items.cuh"
#include "kernels/row_moves.h"

namespace weft::cuda {
namespace {

constexpr int kMoveThreads = 256;

struct RowBuffers {
  void* of_rank[kernels::kMostRowRanks];
};

// By a warp, with several loads in flight.
template <class Word>
__device__ void copy_row(const Word* from, Word* to, std::int64_t words) {
  constexpr int kInFlight = 4;
  for (std::int64_t first = threadIdx.x % kWarp; first < words; first += kInFlight * kWarp) {
    Word kept[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (first + u * kWarp < words) kept[u] = from[first + u * kWarp];
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (first + u * kWarp < words) to[first + u * kWarp] = kept[u];
    }
  }
}

// A warp has a place of a segment, and copies its row if there is one.
template <class Word>
__global__ void __launch_bounds__(kMoveThreads)
    move_rows_kernel(const kernels::RowMove move, const __grid_constant__ RowBuffers others, std::int64_t words,
                     Fault* fault) {
  const std::int64_t place = (static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x) / kWarp;
  const auto [peer, i] = place_of(place, move.segment_rows());
  if (peer >= move.ranks) return;
  const std::int64_t count = kernels::rows_between(move, peer);
  if (count < 0 || count > move.segment_rows()) return report(fault, Fault::rows_outside_buffer);
  if (i >= count) return;
  const kernels::MovedRow row = kernels::moved_row(move, peer, i);
  if (!row.fits) return report(fault, Fault::rows_outside_buffer);
  Word* const own = static_cast<Word*>(move.own) + row.own * words;
  Word* const other = static_cast<Word*>(others.of_rank[peer]) + row.other * words;
  copy_row(move.collects ? other : own, move.collects ? own : other, words);
}

template <class Word>
void start_moves(const Launch& launch, const kernels::RowMove& move, const RowBuffers& others) {
  const unsigned blocks = blocks_for(move.ranks * move.segment_rows(), kMoveThreads / kWarp);
  start("move_rows", launch, move_rows_kernel<Word>, blocks, kMoveThreads, 0, move, others,
        move.row_bytes / static_cast<std::int64_t>(sizeof(Word)), launch.fault);
}

}  // namespace

void move_rows(const Launch& launch, const kernels::RowMove& move, std::span<void* const> others) {
  if (std::ssize(others) != move.ranks || move.ranks > kernels::kMostRowRanks || move.row_bytes % 2 != 0) {
    throw std::logic_error("rows move between 1 to 256 ranks, in whole elements of two bytes or more");
  }
  if (move.segment_rows() == 0 || move.row_bytes == 0) return;
  RowBuffers buffers{};
  std::copy(others.begin(), others.end(), buffers.of_rank);
  std::uintptr_t alignment = reinterpret_cast<std::uintptr_t>(move.own) | static_cast<std::uintptr_t>(move.row_bytes);
  for (const void* other : others) alignment |= reinterpret_cast<std::uintptr_t>(other);
  if (alignment % sizeof(uint4) == 0) return start_moves<uint4>(launch, move, buffers);
  if (alignment % sizeof(std::uint32_t) == 0) return start_moves<std::uint32_t>(launch, move, buffers);
  start_moves<std::uint16_t>(launch, move, buffers);
}

}  // namespace weft::cuda
