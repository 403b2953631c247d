// The guarantees that kernels may rely on hold, and others don't: a missing barrier shows.
#include "tests/gpu/emulator/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/gpu/emulator/device_code.h"
#include "tests/gpu/emulator/include/kernels/cuda/warp_operations.cuh"

namespace weft::emulator {
namespace {

constexpr std::uint64_t kSeeds = 24;

TEST(EmulatedBlock, EveryThreadOfEveryBlockRunsOnce) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<int> runs(3 * 2 * 8 * 4);
    run_grid({"count", {3, 2, 1}, {8, 4, 1}}, seed, [&] {
      const unsigned block = blockIdx.y * gridDim.x + blockIdx.x, thread = threadIdx.y * blockDim.x + threadIdx.x;
      ++runs[block * 32 + thread];
    });
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
  }
}

// Each thread reads the value written by the thread at the opposite end of the block.
int wrong_when_reversed(std::uint64_t seed, bool with_barrier) {
  constexpr int kThreads = 96;
  std::vector<int> out(kThreads);
  run_grid({"reverse", {1, 1, 1}, {kThreads, 1, 1}, kThreads * sizeof(int)}, seed, [&] {
    auto* const area = reinterpret_cast<int*>(shared_area());
    const int mine = static_cast<int>(threadIdx.x);
    area[mine] = mine;
    if (with_barrier) __syncthreads();
    out[static_cast<std::size_t>(mine)] = area[kThreads - 1 - mine];
  });
  int wrong = 0;
  for (int i = 0; i < kThreads; ++i) wrong += out[static_cast<std::size_t>(i)] != kThreads - 1 - i;
  return wrong;
}

TEST(EmulatedBlock, ABarrierOrdersAndAForgottenOneShows) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(wrong_when_reversed(seed, true), 0);
    EXPECT_GT(wrong_when_reversed(seed, false), 0);
  }
}

TEST(EmulatedBlock, ThreadsThatEndedAreNotWaitedFor) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    int passed = 0;
    run_grid({"early", {1, 1, 1}, {64, 1, 1}}, seed, [&] {
      if (threadIdx.x >= 40) return;
      __syncthreads();
      ++passed;
    });
    EXPECT_EQ(passed, 40);
  }
}

// Each block of a cluster reads what its neighbour wrote. A block that ends before its neighbour has read it is an
// error.
int wrong_in_a_cluster(std::uint64_t seed, bool first_barrier, bool last_barrier) {
  constexpr unsigned kBlocks = 6, kOfCluster = 3, kThreads = 64;
  int wrong = 0;
  run_grid({"neighbours", {kBlocks, 1, 1}, {kThreads, 1, 1}, kThreads * sizeof(unsigned), kOfCluster}, seed, [&] {
    auto* const area = reinterpret_cast<unsigned*>(shared_area());
    unsigned* const mine = area + threadIdx.x;
    *mine = blockIdx.x * kThreads + threadIdx.x;
    if (first_barrier) cluster_barrier();
    const unsigned neighbour = (blockIdx.x % kOfCluster + 1) % kOfCluster;
    const auto* const theirs = reinterpret_cast<const unsigned*>(
        of_block(neighbour, reinterpret_cast<const std::byte*>(area + kThreads - 1 - threadIdx.x)));
    const unsigned block = blockIdx.x / kOfCluster * kOfCluster + neighbour;
    if (*theirs != block * kThreads + kThreads - 1 - threadIdx.x) ++wrong;
    if (last_barrier) cluster_barrier();
    __syncthreads();
  });
  return wrong;
}

TEST(EmulatedBlock, BlocksOfAClusterReadOneAnother) {
  int failures = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(wrong_in_a_cluster(seed, true, true), 0);
    EXPECT_GT(wrong_in_a_cluster(seed, false, true), 0);
    try {
      wrong_in_a_cluster(seed, true, false);
    } catch (const std::logic_error&) {
      ++failures;
    }
  }
  EXPECT_GT(failures, 0);
}

// The work before a kernel that begins early shows to threads that wait for it alone.
TEST(EmulatedBlock, EarlierWorkIsWaitedFor) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    int written = 0, before = 0, after = 0;
    const auto write = [&] { run_grid({"writer", {2, 1, 1}, {32, 1, 1}}, seed, [&] { ++written; }); };
    run_grid(
        {"reader", {2, 1, 1}, {64, 1, 1}}, seed,
        [&] {
          if (blockIdx.x == (seed % 2 == 0 ? 0 : 1)) before += written;
          await_earlier();
          __syncthreads();
          after += written;
        },
        write);
    EXPECT_EQ(before, 0);
    EXPECT_EQ(after, 2 * 64 * 64);
    EXPECT_THROW(run_grid(
                     {"hasty", {1, 1, 1}, {64, 1, 1}}, seed, [] {}, write),
                 std::logic_error);
  }
}

TEST(EmulatedBlock, NumberedBarriersAreApart) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    int first = 0, second = 0;
    run_grid({"teams", {1, 1, 1}, {32, 2, 1}}, seed, [&] {
      int& count = threadIdx.y == 0 ? first : second;
      ++count;
      __barrier_sync_count(1 + threadIdx.y, blockDim.x);
      EXPECT_EQ(count, 32);
    });
  }
}

std::string failure_of(dim3 threads, const std::function<void()>& body) {
  try {
    run_grid({"broken", {1, 1, 1}, threads}, 1, body);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(EmulatedBlock, WaitingForEverIsReported) {
  const std::string apart = failure_of({64, 1, 1}, [] {
    if (threadIdx.x < 32) {
      __barrier_sync_count(1, 64);
    } else {
      __syncthreads();
    }
  });
  EXPECT_NE(apart.find("kernel broken, block (0, 0, 0): 64 of 64 threads wait forever"), std::string::npos) << apart;
  const std::string lane = failure_of({32, 1, 1}, [] {
    if (threadIdx.x != 7) __syncwarp();
  });
  EXPECT_NE(lane.find("31 of 32 threads"), std::string::npos) << lane;
  EXPECT_NE(lane.find("an operation of its warp"), std::string::npos) << lane;
  const std::string mixed = failure_of({32, 1, 1}, [] {
    if (threadIdx.x < 16) {
      __syncwarp();
    } else {
      __shfl_xor_sync(0xffffffffU, 1.0F, 1);
    }
  });
  EXPECT_NE(mixed.find("different operations"), std::string::npos) << mixed;
  // The next kernel isn't affected.
  EXPECT_EQ(wrong_when_reversed(1, true), 0);
}

TEST(EmulatedBlock, ShufflesExchange) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    run_grid({"shuffle", {1, 1, 1}, {64, 1, 1}}, seed, [] {
      const int mine = static_cast<int>(threadIdx.x);
      for (int mask = 1; mask < 32; mask *= 2) EXPECT_EQ(__shfl_xor_sync(0xffffffffU, mine, mask), mine ^ mask);
    });
  }
}

// Whether all threads find the data that they copied.
bool copies_arrive(std::uint64_t seed, bool waits) {
  std::vector<float> from(32 * 4, 1.5F);
  bool all = true;
  run_grid({"copy", {1, 1, 1}, {32, 1, 1}, 32 * 16}, seed, [&] {
    float* const to = reinterpret_cast<float*>(shared_area()) + threadIdx.x * 4;
    cuda::copy_async<16>(to, from.data() + threadIdx.x * 4, threadIdx.x != 3);
    cuda::commit_copies();
    cuda::commit_copies();
    if (waits) cuda::wait_for_copies<1>();
    all = all && to[3] == (threadIdx.x != 3 ? 1.5F : 0.0F);
  });
  return all;
}

TEST(EmulatedBlock, AsynchronousCopiesAreThereWhenTheyWereWaitedFor) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_TRUE(copies_arrive(seed, true));
    without += copies_arrive(seed, false);
  }
  EXPECT_GT(without, 0);  // as may happen on a GPU
  EXPECT_LT(without, static_cast<int>(kSeeds));
}

// C[16, 8] = A[16, 16]·B. Operands are loaded as in attention: B once as it is, and once transposed.
TEST(EmulatedBlock, TensorCoresMultiplyLoadedMatrices) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  __nv_bfloat16 a[16][16], b[8][16], b_rows[16][8];
  for (auto& row : a) {
    for (auto& x : row) x = __float2bfloat16_rn(normal(random));
  }
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 16; ++k) b_rows[k][n] = b[n][k] = __float2bfloat16_rn(normal(random));
  }
  for (const bool transposed : {false, true}) {
    float c[16][8] = {};
    run_grid({"mma", {1, 1, 1}, {32, 1, 1}}, 1, [&] {
      const int lane = static_cast<int>(threadIdx.x);
      std::uint32_t left[4], right[4];
      cuda::load_matrices(left, &a[lane % 16][lane / 16 * 8]);
      if (transposed) {
        cuda::load_matrices_transposed(right, &b_rows[lane % 16][0]);
      } else {
        cuda::load_matrices(right, &b[lane % 8][lane / 8 % 2 * 8]);
      }
      float sums[4] = {};
      cuda::multiply_add(sums, left, right[0], right[1]);
      for (int i = 0; i < 4; ++i) c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[i];
    });
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += __bfloat162float(a[m][k]) * __bfloat162float(b[n][k]);
        EXPECT_NEAR(c[m][n], expected, 1e-4) << m << ' ' << n;
      }
    }
  }
}

}  // namespace
}  // namespace weft::emulator
