// Workers: every chunk once, exceptions, progress, scratch, denormals.
#include "kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace weft::cpu {
namespace {

TEST(Workers, RunsEachChunkOnce) {
  for (int threads : {1, 2, 4}) {
    Workers workers(threads);
    EXPECT_EQ(workers.threads(), threads);
    for (std::int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(1001);
      workers.run(chunks, [&](std::int64_t i) { ++counts[static_cast<std::size_t>(i)]; });
      for (std::int64_t i = 0; i <= 1000; ++i) EXPECT_EQ(counts[static_cast<std::size_t>(i)], i < chunks ? 1 : 0);
    }
  }
}

TEST(Workers, RefusesNoThreads) {
  EXPECT_THROW(Workers(0), std::invalid_argument);
}

TEST(Workers, PassesExceptionsOnAndStaysUsable) {
  for (int threads : {1, 3}) {
    Workers workers(threads);
    EXPECT_THROW(workers.run(50,
                             [](std::int64_t i) {
                               if (i == 20) throw std::runtime_error("chunk");
                             }),
                 std::runtime_error);
    std::atomic<int> count{0};
    workers.run(50, [&](std::int64_t) { ++count; });
    EXPECT_EQ(count, 50);
  }
}

// Counts calls of the progress hook, and notices one by another thread than that which made this.
class ProgressCalls {
 public:
  explicit ProgressCalls(Workers& workers) {
    workers.set_progress_hook([this] {
      ++calls;
      foreign = foreign || !is_caller();
    });
  }
  bool is_caller() const { return std::this_thread::get_id() == caller_; }

  int calls = 0;
  bool foreign = false;

 private:
  std::thread::id caller_ = std::this_thread::get_id();
};

TEST(Workers, ProgressIsMadeByTheCallingThreadBetweenChunks) {
  for (int threads : {1, 3}) {
    Workers workers(threads);
    const ProgressCalls progress(workers);
    std::atomic<int> of_caller{0};
    workers.run(100, [&](std::int64_t) { of_caller += progress.is_caller() ? 1 : 0; });
    EXPECT_FALSE(progress.foreign);
    EXPECT_GE(progress.calls, of_caller - 1);
    EXPECT_LE(progress.calls, of_caller);
    if (threads == 1) {
      EXPECT_EQ(progress.calls, 99);
    }
    workers.set_progress_hook({});
    workers.run(10, [](std::int64_t) {});
    EXPECT_LE(progress.calls, of_caller);
  }
}

TEST(Workers, ProgressIsMadeWithinAChunkOfTheCallingThread) {
  for (int threads : {1, 3}) {
    Workers workers(threads);
    ProgressCalls progress(workers);
    for (const std::int64_t chunks : {50, 1, 4}) {  // a single chunk runs outside of the arena
      progress.calls = 0;
      std::atomic<int> of_caller{0};
      workers.run(chunks, [&](std::int64_t) {
        for (int i = 0; i < 10; ++i) workers.progress();
        of_caller += progress.is_caller() ? 1 : 0;
      });
      EXPECT_FALSE(progress.foreign);
      EXPECT_GE(progress.calls, 10 * of_caller) << threads << " threads, " << chunks << " chunks";
    }
  }
}

TEST(Workers, ScratchIsAlignedAndPrivateToAWorker) {
  Workers workers(3);
  constexpr std::size_t kBytes = 4096;
  workers.reserve(kBytes, 2 * kBytes);
  const auto aligned = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; };
  EXPECT_TRUE(aligned(workers.shared_scratch()));
  std::atomic<int> clashes{0};
  workers.run(64, [&](std::int64_t i) {
    std::byte* scratch = workers.worker_scratch();
    if (!aligned(scratch)) ++clashes;
    // Another worker with the same bytes would overwrite them while this worker waits.
    std::memset(scratch, static_cast<int>(i), kBytes);
    std::this_thread::yield();
    for (std::size_t b = 0; b < kBytes; ++b) clashes += scratch[b] == static_cast<std::byte>(i) ? 0 : 1;
  });
  EXPECT_EQ(clashes, 0);
}

TEST(Workers, ReserveGrowsButNeverShrinks) {
  Workers workers(1);
  workers.reserve(1000, 0);
  std::byte* before = workers.worker_scratch();
  workers.reserve(10, 0);
  EXPECT_EQ(workers.worker_scratch(), before);
  workers.reserve(Scratch{100000, 100});
  std::memset(workers.worker_scratch(), 1, 100000);
  std::memset(workers.shared_scratch(), 1, 100);
}

#if defined(__SSE2__) || defined(__aarch64__)
TEST(Workers, FlushDenormalsOnEveryThread) {
  for (int threads : {1, 3}) {
    std::atomic<int> kept{0};
    volatile float tiny = 2e-38F;
    std::thread caller([&] {
      std::fesetenv(FE_DFL_ENV);              // denormals are kept again, as on an unprepared thread
      if (tiny * 0.1F == 0.0F) kept = -1000;  // otherwise the test would show nothing
      Workers workers(threads);
      workers.run(200, [&](std::int64_t) {
        if (tiny * 0.1F != 0.0F) ++kept;
      });
    });
    caller.join();
    EXPECT_EQ(kept, 0);
  }
}
#endif

}  // namespace
}  // namespace weft::cpu
