#include "runtime/execute/tuning/small_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::execute {
namespace {

TEST(SmallNumbers, FillAMatrixWithBothSigns) {
  std::vector<float> values(1001);
  fill_with_small_numbers({values.data(), 10, 90, 101, DType::f32});
  float sum = 0, most = 0;
  for (const float value : values) {
    sum += value;
    most = std::max(most, std::abs(value));
  }
  EXPECT_LE(most, 0.05F);
  EXPECT_GT(most, 0.04F);
  EXPECT_LT(std::abs(sum), 5);
  EXPECT_NE(values[9 * 101 + 89], 0);  // the last one
  EXPECT_EQ(values[9 * 101 + 90], 0);
}

}  // namespace
}  // namespace weft::execute
