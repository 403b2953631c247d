#include "runtime/cost/rank_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::cost {
namespace {

TEST(RankGroups, AreTheGroupsOfAnAxis) {
  const graph::Grid grid = RankGroups{2, 4}.grid(16);
  EXPECT_EQ(grid.ranks(), 16);
  const auto color = [&](std::int64_t rank) { return graph::group_color(grid, RankGroups::kChannel, rank); };
  EXPECT_EQ(graph::group_size(grid, RankGroups::kChannel), 2);
  EXPECT_EQ(color(1), color(5));
  EXPECT_NE(color(1), color(2));
  EXPECT_NE(color(1), color(9));
}

TEST(RankGroups, WithinANodeLeaveOutTheWholeNode) {
  EXPECT_TRUE(groups_within_node(1).empty());
  EXPECT_TRUE(groups_within_node(2).empty());
  EXPECT_TRUE(groups_within_node(3).empty());
  EXPECT_EQ(groups_within_node(4), (std::vector<RankGroups>{{2, 1}, {2, 2}}));
  EXPECT_EQ(groups_within_node(6), (std::vector<RankGroups>{{2, 1}, {2, 3}, {3, 1}, {3, 2}}));
  EXPECT_EQ(groups_within_node(8), (std::vector<RankGroups>{{2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}}));
}

TEST(RankGroups, OfManyRanksAreThoseOfOuterAndInnerAxes) {
  EXPECT_EQ(groups_within_node(64, 1000).size(), 20U);
  const std::vector<RankGroups> some = groups_within_node(64);
  EXPECT_EQ(some.size(), 12U);
  int outside = 0;
  for (const RankGroups& each : some) {
    EXPECT_EQ(64 % (each.ranks * each.stride), 0);
    if (each.stride == 1 || each.ranks * each.stride == 64) ++outside;
  }
  EXPECT_EQ(outside, 10);
}

}  // namespace
}  // namespace weft::cost
