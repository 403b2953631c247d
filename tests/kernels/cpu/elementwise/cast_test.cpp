// Conversion between float dtypes, bit by bit.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

TEST(Cast, RoundsToNearestEven) {
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 1, 0}, {7, 29, 3}, {1, 70001, 0}}) {
    Tensor x = Tensor::random(DType::f32, rows, cols, 1, 10.0, padding), out(DType::bf16, rows, cols, 2 * padding);
    Tensor expected(DType::bf16, rows, cols, x.values(), 2 * padding);
    testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& workers) { cast(workers, x.view(), out.view()); });
    EXPECT_EQ(out.bytes(), expected.bytes());
  }
  Tensor ties(DType::f32, 1, 4, {1 + 0x1p-8, 1 + 3 * 0x1p-8, -1 - 0x1p-8, 1 + 0x1p-8 + 0x1p-20}),
      out(DType::bf16, 1, 4);
  Workers workers(1);
  cast(workers, ties.view(), out.view());
  EXPECT_EQ(out.values(), (Values{1, 1 + 0x1p-6, -1, 1 + 0x1p-7}));
}

TEST(Cast, WidensExactly) {
  Tensor x = Tensor::random(DType::bf16, 5, 33, 1, 100.0, 3);
  Tensor rows(DType::f32, 5, 33, 1), back(DType::bf16, 5, 33, 3), same(DType::bf16, 5, 33, 3);
  Workers workers(2);
  cast(workers, x.view(), rows.view());
  EXPECT_EQ(rows.values(), x.values());
  EXPECT_TRUE(rows.padding_untouched());
  cast(workers, rows.view(), back.view());
  EXPECT_EQ(back.bytes(), x.bytes());
  cast(workers, x.view(), same.view());
  EXPECT_EQ(same.bytes(), x.bytes());
}

TEST(Cast, KeepsWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor x(DType::f32, 1, 3, {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}), out(DType::bf16, 1, 3);
  Tensor wide(DType::f32, 1, 3);
  Workers workers(1);
  cast(workers, x.view(), out.view());
  cast(workers, out.view(), wide.view());
  for (Tensor* result : {&out, &wide}) {
    EXPECT_EQ(result->values()[0], kInfinity);
    EXPECT_EQ(result->values()[1], -kInfinity);
    EXPECT_TRUE(std::isnan(result->values()[2]));
  }
}

}  // namespace
}  // namespace weft::cpu
