// The watchdog fires once on a stall, and at no other time. Its fakes count calls; nothing here measures time.
#include "runtime/execute/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>

#include "runtime/comm/local.h"

namespace weft::execute {
namespace {

TEST(Watchdog, FiresOnlyOnceProgressStops) {
  std::atomic<int> looks{0};
  std::binary_semaphore fired(0);
  int looks_when_fired = 0;
  Watchdog watchdog(
      0.004, [&] { return static_cast<std::uint64_t>(std::min(++looks, 50)); },
      [&] {
        looks_when_fired = looks;
        fired.release();
      });
  fired.acquire();
  EXPECT_GE(looks_when_fired, 54);  // 50 polls saw a change, and one unchanged poll isn't a stall
}

TEST(Watchdog, FiresOnceAStallAndAgainAtTheNext) {
  std::atomic<std::uint64_t> done{0}, looks{0};
  std::atomic<int> fires{0};
  std::counting_semaphore<> fired(0);
  {
    Watchdog watchdog(
        0.004,
        [&] {
          ++looks;
          return done.load();
        },
        [&] {
          ++fires;
          fired.release();
        });
    fired.acquire();
    for (const std::uint64_t start = looks; looks < start + 20;) std::this_thread::yield();
    EXPECT_EQ(fires, 1);
    ++done;
    fired.acquire();
  }
  EXPECT_EQ(fires, 2);
}

TEST(Watchdog, StopsWithoutWaitingForItsTimeout) {
  const Watchdog watchdog(
      1e6, [] { return std::uint64_t{0}; }, [] { FAIL(); });
}

TEST(WatchdogDeathTest, ReportsWhereItIsStuckAndEndsTheProcess) {
  const auto worlds = comm::make_local_worlds(1);
  EXPECT_EXIT(report_and_exit([] { return std::string("rank 0, data: all_reduce pending"); }, *worlds[0], 0)(),
              ::testing::ExitedWithCode(3), "rank 0, data: all_reduce pending");
}

}  // namespace
}  // namespace weft::execute
