#include "base/text/parse_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace weft {
namespace {

TEST(ParseNumber, TakesItsRangeWithTheBounds) {
  EXPECT_EQ(parse_number<std::int64_t>("1", "n", 1, 4), 1);
  EXPECT_EQ(parse_number<std::int64_t>("4", "n", 1, 4), 4);
  EXPECT_EQ(parse_number<double>("2.5e-1", "n", 0, 1), 0.25);
  EXPECT_FALSE(std::signbit(parse_number<float>("-0", "n", 0, 1)));
}

TEST(ParseNumber, RefusesTheRest) {
  for (const char* value : {"", "0", "5", "1x", " 1", "1.0", "9223372036854775808"}) {
    EXPECT_THROW(parse_number<std::int64_t>(value, "n", 1, 4), UserError) << value;
  }
  for (const char* value : {"nan", "inf", "1e400", "0,5", "-1"}) {
    EXPECT_THROW(parse_number<double>(value, "n", 0, 1), UserError) << value;
  }
}

}  // namespace
}  // namespace weft
