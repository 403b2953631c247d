#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

TEST(Half, EveryNumberComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << value;
    }
  }
}

TEST(Half, IsTheNearestOne) {
  EXPECT_EQ(half_to_float(0x3C01), 1.0009765625F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(float_to_half(-2.0F), 0xC000);
  // Halfway between two: the even one.
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3C00);
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3C02);
  EXPECT_EQ(float_to_half(0x1p-25F), 0x0000);
  EXPECT_EQ(float_to_half(3 * 0x1p-25F), 0x0002);
  EXPECT_EQ(float_to_half(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xFC00);
}

}  // namespace
}  // namespace weft
