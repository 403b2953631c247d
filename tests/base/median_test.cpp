#include "base/median.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Median, IsTheMiddleValue) {
  EXPECT_EQ(median({5, 1, 100}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({}), 0);
}

TEST(Quantile, LiesBetweenValuesInProportion) {
  EXPECT_EQ(quantile({40, 10, 20}, 0), 10);
  EXPECT_EQ(quantile({40, 10, 20}, 1), 40);
  EXPECT_EQ(quantile({40, 10, 20}, 0.5), 20);
  EXPECT_EQ(quantile({40, 10, 20}, 0.75), 30);
  EXPECT_EQ(quantile({7}, 0.9), 7);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace weft
