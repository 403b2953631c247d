// Add, scale, zero, bias gradient and row selection.
#include "kernels/cpu/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

class Elementwise : public testing::ForFloatTypes {};

TEST_P(Elementwise, AddsContiguousAndStridedViews) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor a = Tensor::random(dtype, rows, cols, 1, 1.0, padding), b = Tensor::random(dtype, 1, rows * cols, 2);
    Tensor out(dtype, rows, cols, 2 * padding);
    testing::run_on_one_and_three_threads({}, {&out},
                                          [&](Workers& workers) { add(workers, a.view(), b.view(), out.view()); });
    testing::expect_close(out.values(), testing::plus(a.values(), b.values()), testing::tolerance_of(dtype, 1e-7));
  }
}

TEST_P(Elementwise, AddsInPlace) {
  const DType dtype = GetParam();
  Tensor a = Tensor::random(dtype, 4, 19, 1), b = Tensor::random(dtype, 4, 19, 2);
  const Values expected = testing::plus(a.values(), b.values());
  Workers workers(1);
  add(workers, a.view(), b.view(), a.view());
  testing::expect_close(a.values(), expected, testing::tolerance_of(dtype, 1e-7));
}

TEST_P(Elementwise, ScalesContiguousAndStridedViewsAndInPlace) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor x = Tensor::random(dtype, rows, cols, 1, 1.0, padding), out(dtype, rows, cols, 2 * padding);
    Values expected = x.values();
    for (double& value : expected) value *= 0.75;
    testing::run_on_one_and_three_threads({}, {&out},
                                          [&](Workers& workers) { scale(workers, x.view(), 0.75F, out.view()); });
    testing::expect_close(out.values(), expected, testing::tolerance_of(dtype, 1e-7));
    Workers workers(1);
    scale(workers, x.view(), 0.75F, x.view());
    EXPECT_EQ(x.values(), out.values());
  }
}

TEST_P(Elementwise, ZeroesContiguousAndStridedViews) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] : {std::array<std::int64_t, 3>{1, 3, 0}, {7, 50, 6}, {2, 70000, 0}}) {
    Tensor out = Tensor::random(dtype, rows, cols, 1, 1.0, padding);
    out.assign(Values(static_cast<std::size_t>(rows * cols), std::numeric_limits<double>::quiet_NaN()));
    testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& workers) { zero(workers, out.view()); });
    EXPECT_EQ(out.values(), Values(static_cast<std::size_t>(rows * cols)));
  }
}

TEST_P(Elementwise, BiasGradientSumsRows) {
  const DType dtype = GetParam();
  for (bool accumulate : {false, true}) {
    for (const auto& [rows, cols, padding] :
         {std::array<std::int64_t, 3>{1, 1, 0}, {17, 33, 5}, {6, 2065, 1}, {1100, 2100, 0}}) {
      Tensor dy = Tensor::random(dtype, rows, cols, 1, 1.0, padding), db(DType::f32, 1, cols);
      if (accumulate) db.assign(testing::normal_values(cols, 2));
      Values expected = accumulate ? db.values() : Values(static_cast<std::size_t>(cols));
      const Values dys = dy.values();
      for (std::size_t i = 0; i < dys.size(); ++i) expected[i % expected.size()] += dys[i];
      testing::run_on_one_and_three_threads(bias_gradient_scratch(rows, cols), {&db}, [&](Workers& workers) {
        bias_gradient(workers, dy.view(), db.view(), accumulate);
      });
      testing::expect_close(db.values(), expected, {1e-5, 1e-4});
    }
  }
}

TEST_P(Elementwise, SelectsOneRowAndConvertsIt) {
  const DType dtype = GetParam();
  Tensor x = Tensor::random(dtype, 5, 21, 1, 1.0, 4), same(dtype, 1, 21), wide(DType::f32, 1, 21);
  Workers workers(1);
  for (std::int64_t index : {0, 3, 4, 5, 13}) {
    select_row(workers, x.view(), index, same.view());
    select_row(workers, x.view(), index, wide.view());
    for (std::size_t c = 0; c < 21; ++c) {
      const double expected = x.values()[static_cast<std::size_t>(index % 5) * 21 + c];
      EXPECT_EQ(same.values()[c], expected);
      EXPECT_EQ(wide.values()[c], expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise, testing::both_float_types(), testing::type_name);

TEST(ElementwiseErrors, MixedTypesAndSizesAreRefused) {
  Tensor a(DType::f32, 2, 4), b(DType::bf16, 2, 4), c(DType::f32, 2, 5);
  Tensor i = Tensor::integers(DType::i32, {1, 2, 3, 4, 5, 6, 7, 8});
  Workers workers(1);
  EXPECT_THROW(add(workers, a.view(), b.view(), a.view()), std::logic_error);
  EXPECT_THROW(add(workers, a.view(), c.view(), a.view()), std::logic_error);
  EXPECT_THROW(add(workers, i.view(), i.view(), i.view()), std::logic_error);
}

}  // namespace
}  // namespace weft::cpu
