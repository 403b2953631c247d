#include "train/measure/rank_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/comm/ranks.h"

namespace weft::train {
namespace {

TEST(RankClock, CallsTheFunctionAsOftenOnEachRank) {
  std::vector<int> calls(2);
  testing::on_ranks(2, [&](comm::World& world) {
    int& own = calls[static_cast<std::size_t>(world.rank())];
    EXPECT_GT(RankClock(world, 3, 0).seconds([&] { ++own; }), 0);
    EXPECT_EQ(own, 5);  // two before the repeats tell how long these take
    EXPECT_GT(RankClock(world, 2, 1e-4).slowest_seconds([&] { ++own; }), 0);
    const OverRanks values = over_ranks(world, world.rank() == 0 ? 1 : 4);
    EXPECT_EQ(values.mean, 2.5);
    EXPECT_EQ(values.greatest, 4);
  });
  EXPECT_EQ(calls[0], calls[1]);
}

}  // namespace
}  // namespace weft::train
