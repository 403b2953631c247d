// Runs a block of a CUDA kernel's threads on a CPU. Each thread is a fiber that runs until it must wait for others, so
// code without a needed barrier reads data before it is written. A seed determines the order of threads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace weft::emulator {

/// A launch. The blocks of a cluster, neighbours in x, run together.
struct GridShape {
  std::string kernel;
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;
};

/// Runs `body` for every thread of every block. Throws std::logic_error that names the kernel if threads wait for each
/// other forever: not all threads reach a barrier, or not all lanes take part in a warp operation.
///
///   run_grid({"fill", {2, 1, 1}, {64, 1, 1}}, /*seed=*/1, [=] { x[block_index().x * 64 + thread_index().x] = 1; });
/// With `earlier`, the kernel was launched early: `earlier`, the work before it, runs once the first block's threads
/// all wait for it or have ended, and must be waited for.
void run_grid(const GridShape& shape, std::uint64_t seed, const std::function<void()>& body,
              const std::function<void()>& earlier = nullptr);

// The following functions are for kernel code; they concern the calling thread.

const uint3& thread_index();
const uint3& block_index();
const dim3& block_size();
const dim3& grid_size();

/// The block's shared memory, 16-byte aligned, filled with NaNs when the block begins.
std::byte* shared_area();

/// What `mine`, in the block's shared memory, is in that of the cluster's block `rank`, which must not have ended.
const std::byte* of_block(unsigned rank, const std::byte* mine);
/// Waits for all threads of the cluster that have not ended.
void cluster_barrier();

/// Waits for the work before a kernel that was launched early.
void await_earlier();

/// Waits for all threads of the block that have not ended.
void barrier();
/// Waits until `threads` threads of the block have reached the barrier with this number.
void barrier(unsigned number, unsigned threads);

/// A warp operation. When all 32 lanes have arrived, `operation` is called once with their arguments in lane order;
/// then the lanes continue. All lanes must pass the same operation.
using LaneOperation = void (*)(std::span<void* const> lanes);
void with_warp(LaneOperation operation, void* mine);

/// An asynchronous copy to shared memory. It may happen at any time until it is waited for.
void begin_copy(void* to, const void* from, int bytes, int zeros);
void commit_copies();
void wait_for_copies(int groups_left);

}  // namespace weft::emulator
