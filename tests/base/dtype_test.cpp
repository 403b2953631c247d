// bfloat16 rounds to nearest even and keeps infinities and NaN.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(bf16(1.0F + 0x1p-8F).bits, 0x3f80);             // a tie: down to even
  EXPECT_EQ(bf16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);         // a tie: up to even
  EXPECT_EQ(bf16(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);  // above the tie
  EXPECT_EQ(static_cast<float>(bf16(-2.5F)), -2.5F);
}

TEST(Bf16, KeepsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(bf16(infinity)), infinity);
  EXPECT_EQ(static_cast<float>(bf16(std::numeric_limits<float>::max())), infinity);  // rounds up
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::nanf("")))));
}

}  // namespace
}  // namespace weft
