// Pools of ranks that share cores: found by machine and cores, and given turns.
#include "runtime/execute/cpu/shared_cores.h"

#include <gtest/gtest.h>

namespace weft::execute {
namespace {

TEST(SharedCores, ArePoolsOfRanksWithTheSameCoresAndTooFewOfThem) {
  const AllowedCores a{1, 10, 1}, b{1, 11, 1}, other_machine{2, 10, 1}, two{1, 12, 2};
  EXPECT_EQ(pools_of({a, b, a, b}, 1), (std::vector<cost::CorePool>{{{0, 2}, 1}, {{1, 3}, 1}}));
  EXPECT_TRUE(pools_of({a, b}, 1).empty());
  EXPECT_TRUE(pools_of({a, b}, 2).empty()) << "a rank's own threads are its own matter";
  EXPECT_TRUE(pools_of({a, other_machine}, 1).empty());
  EXPECT_TRUE(pools_of({two, two}, 1).empty());
  EXPECT_EQ(pools_of({two, two, two}, 1), (std::vector<cost::CorePool>{{{0, 1, 2}, 2}}));
  const std::vector<cost::CorePool> some = pools_of({two, a, two}, 2);
  EXPECT_EQ(some, (std::vector<cost::CorePool>{{{0, 2}, 2}}));
  EXPECT_TRUE(are_shared(some, 0));
  EXPECT_FALSE(are_shared(some, 1));
  EXPECT_TRUE(are_shared(some, 2));
}

TEST(SharedCores, ComputeInTurns) {
  const std::vector<cost::CorePool> pools = {{{0, 2, 4}, 1}, {{1, 3}, 1}};
  std::vector<std::int64_t> turns;
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(turns_of(pools, rank, 1).count, 3);
    turns.push_back(turns_of(pools, rank, 1).own);
  }
  EXPECT_EQ(turns, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 0}));
  EXPECT_EQ(turns_of({}, 3, 1).count, 1);
  const std::vector<cost::CorePool> wide = {{{0, 1, 2, 3, 4}, 4}};
  EXPECT_EQ(turns_of(wide, 4, 2).count, 3);
  EXPECT_EQ(turns_of(wide, 3, 2).own, 1);
}

TEST(SharedCores, AreDividedIntoThreads) {
  const AllowedCores a{1, 10, 8}, b{1, 11, 4}, other_machine{2, 10, 8};
  EXPECT_EQ(threads_for_all({a, a, other_machine, other_machine}), 4) << "ranks of another machine take nothing away";
  EXPECT_EQ(threads_for_all({a, a, a}), 2);
  EXPECT_EQ(threads_for_all({a, b}), 4) << "all ranks have as many";
  EXPECT_EQ(threads_for_all({b, b, b, b, b}), 1);
}

}  // namespace
}  // namespace weft::execute
