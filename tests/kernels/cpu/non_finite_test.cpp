// NaNs and infinities of every kind, at any position.
#include "kernels/cpu/non_finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace weft::cpu {
namespace {

template <class Element>
class FirstNonFinite : public ::testing::Test {
 protected:
  static constexpr DType kDtype = sizeof(Element) == 4 ? DType::f32 : DType::bf16;
};

using Elements = ::testing::Types<float, bf16>;
TYPED_TEST_SUITE(FirstNonFinite, Elements);

TYPED_TEST(FirstNonFinite, IsFoundAtEveryPlace) {
  constexpr std::int64_t kRows = 3, kCols = 1100, kStride = 1103;
  std::vector<TypeParam> values(kRows * kStride, static_cast<TypeParam>(std::numeric_limits<float>::max() / 2));
  const Matrix matrix{values.data(), kRows, kCols, kStride, TestFixture::kDtype};
  EXPECT_FALSE(first_non_finite(matrix).has_value());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const auto& [row, col] : {std::pair<std::int64_t, std::int64_t>(0, 0), {0, 1023}, {1, 1024}, {2, 1099}}) {
      const auto place = static_cast<std::size_t>(row * kStride + col);
      const TypeParam good = values[place];
      values[place] = static_cast<TypeParam>(bad);
      EXPECT_EQ(first_non_finite(matrix), row * kCols + col) << bad;
      values[place] = good;
    }
  }
}

TYPED_TEST(FirstNonFinite, IsTheFirstOfSeveralAndInsideOfTheWindow) {
  std::vector<TypeParam> values(12, static_cast<TypeParam>(1.0F));
  const auto nan = static_cast<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  values[3] = nan;  // between the rows
  const Matrix matrix{values.data(), 3, 3, 4, TestFixture::kDtype};
  EXPECT_FALSE(first_non_finite(matrix).has_value());
  values[5] = values[9] = nan;
  EXPECT_EQ(first_non_finite(matrix), 4);
}

TEST(FirstNonFiniteInteger, ThereIsNone) {
  std::vector<std::int32_t> values(4, 0x7f800000);
  EXPECT_FALSE(first_non_finite({values.data(), 1, 4, 4, DType::i32}).has_value());
}

}  // namespace
}  // namespace weft::cpu
