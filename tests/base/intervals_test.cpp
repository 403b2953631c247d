#include "base/intervals.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

TEST(Intervals, UnionMergesWhatTouchesAndDropsWhatIsEmpty) {
  EXPECT_EQ(merged({{5, 7}, {0, 2}, {2, 3}, {6, 9}, {4, 4}, {20, 10}}), (Intervals{{0, 3}, {5, 9}}));
  EXPECT_EQ(merged({{0, 10}, {2, 3}}), (Intervals{{0, 10}}));
  EXPECT_TRUE(merged({}).empty());
}

TEST(Intervals, IntersectionAndDifference) {
  const Intervals a = {{0, 10}, {20, 30}, {40, 50}}, b = {{5, 22}, {25, 26}, {45, 60}};
  EXPECT_EQ(intersection(a, b), (Intervals{{5, 10}, {20, 22}, {25, 26}, {45, 50}}));
  EXPECT_EQ(intersection(b, a), intersection(a, b));
  EXPECT_EQ(difference(a, b), (Intervals{{0, 5}, {22, 25}, {26, 30}, {40, 45}}));
  EXPECT_EQ(difference(b, a), (Intervals{{10, 20}, {50, 60}}));
  EXPECT_EQ(difference(a, {}), a);
  EXPECT_TRUE(difference({}, a).empty());
  EXPECT_TRUE(difference(a, a).empty());
  EXPECT_EQ(total_length(a), 30);
}

TEST(Intervals, AgreeWithCountingSingleMoments) {
  std::mt19937 random(3);
  const auto some = [&] {
    Intervals intervals;
    for (int i = 0; i < 6; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 50);
      intervals.push_back({begin, begin + static_cast<std::int64_t>(random() % 10)});
    }
    return merged(intervals);
  };
  const auto holds = [](const Intervals& intervals, std::int64_t t) {
    for (const Interval& interval : intervals) {
      if (interval.begin <= t && t < interval.end) return true;
    }
    return false;
  };
  for (int round = 0; round < 100; ++round) {
    const Intervals a = some(), b = some();
    const Intervals both = intersection(a, b), only = difference(a, b);
    for (std::int64_t t = 0; t < 60; ++t) {
      EXPECT_EQ(holds(both, t), holds(a, t) && holds(b, t));
      EXPECT_EQ(holds(only, t), holds(a, t) && !holds(b, t));
    }
    EXPECT_EQ(total_length(both) + total_length(only), total_length(a));
  }
}

}  // namespace
}  // namespace weft
