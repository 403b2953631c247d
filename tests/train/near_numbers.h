// Numbers of two runs that differ in rounding alone.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace weft::testing {

/// Each number is that close to the expected one, in proportion.
inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                        const char* what = "") {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i] - expected[i]), tolerance * std::abs(expected[i])) << what << " of step " << i;
  }
}

}  // namespace weft::testing
