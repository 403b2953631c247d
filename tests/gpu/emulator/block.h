// A block of a CUDA kernel's threads on a CPU. Each thread is a fiber that runs until it must wait for others, so code
// that forgot a barrier reads what was not yet written; the order of threads comes from a seed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace weft::emulator {

/// Runs `body` for every thread of every block. Throws std::logic_error naming the kernel where threads wait for each
/// other for ever: a barrier that not all reach, a warp's operation that not all of its lanes take part in.
///
///   run_grid("fill", {2, 1, 1}, {64, 1, 1}, 0, /*seed=*/1, [=] { x[block_index().x * 64 + thread_index().x] = 1; });
void run_grid(const std::string& kernel, dim3 blocks, dim3 threads, std::size_t shared_bytes, std::uint64_t seed,
              const std::function<void()>& body);

// What follows is for the code of kernels: of the thread that calls.

const uint3& thread_index();
const uint3& block_index();
const dim3& block_size();
const dim3& grid_size();

/// Of the block, 16-byte aligned, of NaNs when the block begins.
std::byte* shared_area();

/// Waits for all threads of the block that have not ended.
void barrier();
/// Waits until `threads` of the block's have come to the barrier of this number.
void barrier(unsigned number, unsigned threads);

/// A warp's operation: when all 32 lanes have come, `operation` is called once with what each brought, in lane order,
/// before any goes on. All must bring the same operation.
using LaneOperation = void (*)(std::span<void* const> lanes);
void with_warp(LaneOperation operation, void* mine);

/// An asynchronous copy to shared memory, which may happen at once or as late as when it is waited for.
void begin_copy(void* to, const void* from, int bytes, int zeros);
void commit_copies();
void wait_for_copies(int groups_left);

}  // namespace weft::emulator
