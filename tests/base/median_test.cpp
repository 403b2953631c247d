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

}  // namespace
}  // namespace weft
