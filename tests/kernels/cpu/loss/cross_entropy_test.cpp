// Softmax cross-entropy against double precision and central differences.
#include "kernels/cpu/loss/cross_entropy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/kernels/cpu/loss/loss_reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

class CrossEntropy : public testing::ForFloatTypes {
 protected:
  /// Compares a row with double precision.
  void expect_row(const Values& values, std::int64_t target, double scale) const {
    const auto vocab = static_cast<std::int64_t>(values.size());
    Tensor logits(GetParam(), 1, vocab, values), losses(DType::f32, 1, 1), alone(DType::f32, 1, 1);
    Tensor ids = Tensor::integers(DType::i32, {target}), factor(DType::f32, 1, 1, Values{scale});
    const testing::LossReference expected = testing::loss_in_double(vocab, logits.values(), {target}, scale);
    const Matrix grad_scale = factor.view();
    Workers workers(1);
    workers.reserve(cross_entropy_scratch(vocab, GetParam(), true));
    cross_entropy(workers, vocab, logits.view(), ids.view(), alone.view(), nullptr);
    cross_entropy(workers, vocab, logits.view(), ids.view(), losses.view(), &grad_scale);
    EXPECT_EQ(alone.bytes(), losses.bytes());
    testing::expect_close(losses.values(), expected.losses, {1e-6, 2e-6}, "losses");
    testing::expect_close(logits.values(), expected.gradient, testing::tolerance_of(GetParam(), 1e-7), "gradient");
  }
};

TEST_P(CrossEntropy, LossesAndGradients) {
  const DType dtype = GetParam();
  for (const auto& sizes : {std::array<std::int64_t, 3>{1, 1, 1},
                            {5, 3, 3},
                            {40, 65, 128},
                            {9, 5003, 5003},
                            {9, 5003, 5120},
                            {2, 530001, 530001}}) {
    const std::int64_t rows = sizes[0], vocab = sizes[1], padded = sizes[2];
    const std::vector<std::int64_t> targets = testing::some_targets(rows, vocab);
    Tensor logits = Tensor::random(dtype, rows, padded, 1, 4.0, 2), ids = Tensor::integers(DType::i32, targets);
    Tensor losses(DType::f32, 1, rows), plain(DType::f32, 1, rows), scale(DType::f32, 1, 1, Values{0.125});
    const Values before = logits.values();
    const Matrix grad_scale = scale.view();
    Tensor unchanged = logits;
    testing::run_on_one_and_three_threads(
        cross_entropy_scratch(vocab, dtype, true), {&logits, &losses, &plain}, [&](Workers& workers) {
          cross_entropy(workers, vocab, unchanged.view(), ids.view(), plain.view(), nullptr);
          cross_entropy(workers, vocab, logits.view(), ids.view(), losses.view(), &grad_scale);
        });
    EXPECT_EQ(unchanged.values(), before);
    EXPECT_EQ(plain.bytes(), losses.bytes());
    const testing::LossReference expected = testing::loss_in_double(vocab, before, targets, 0.125);
    testing::expect_close(losses.values(), expected.losses, {1e-6, 2e-6}, "losses");
    testing::expect_close(logits.values(), expected.gradient, testing::tolerance_of(dtype, 1e-7), "gradient");
  }
}

TEST_P(CrossEntropy, LargeLogitsStayFinite) {
  expect_row({1000, -1000, 998, 0}, 2, 1.0);
}

// A row is summed in parts (2048 or 4096 columns). The maximum moves from part to part, or a part contains only −inf.
TEST_P(CrossEntropy, PartsOfOneRowDifferInMagnitude) {
  for (double step : {30.0, -30.0, 300.0, -300.0}) {
    Values values = testing::normal_values(6001, 1, 2.0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * static_cast<double>(i / 2048);
    expect_row(values, 4100, 0.5);
  }
}

TEST_P(CrossEntropy, ExcludedTokensHaveNoProbability) {
  Values values(5000, -std::numeric_limits<double>::infinity());
  values[4000] = 1.0, values[4500] = 1.0;
  expect_row(values, 4500, 1.0);
}

TEST_P(CrossEntropy, NanShowsInTheLoss) {
  const DType dtype = GetParam();
  Values values(40, 0.5);
  values[21] = std::numeric_limits<double>::quiet_NaN();
  Tensor logits(dtype, 1, 40, values), losses(DType::f32, 1, 1), ids = Tensor::integers(DType::i32, {2});
  Workers workers(1);
  cross_entropy(workers, 40, logits.view(), ids.view(), losses.view(), nullptr);
  EXPECT_TRUE(std::isnan(losses.values()[0]));
}

TEST_P(CrossEntropy, TargetsOutsideTheVocabularyAreFaults) {
  Tensor logits = Tensor::random(GetParam(), 1, 8, 1), losses(DType::f32, 1, 1);
  Tensor ids = Tensor::integers(DType::i32, {6});  // in the padding
  Workers workers(1);
  EXPECT_THROW(cross_entropy(workers, 6, logits.view(), ids.view(), losses.view(), nullptr), RuntimeFault);
}

INSTANTIATE_TEST_SUITE_P(Types, CrossEntropy, testing::both_float_types(), testing::type_name);

TEST(CrossEntropyReference, GradientsAreThoseOfTheLosses) {
  const Values logits = testing::normal_values(24, 1, 2.0);
  const std::vector<std::int64_t> targets = {4, -1, 0};
  const auto loss = [&](const Values& x) {
    const Values losses = testing::loss_in_double(6, x, targets, 0.5).losses;
    return 0.5 * (losses[0] + losses[1] + losses[2]);
  };
  testing::expect_close(testing::loss_in_double(6, logits, targets, 0.5).gradient,
                        testing::numeric_gradient(loss, logits), {1e-6, 1e-8});
}

TEST(LossSum, CountsAndAddsTargets) {
  Tensor losses(DType::f32, 1, 5, {1.5, 0, 2.25, 0, 0.125}), sums(DType::f32, 1, 2);
  Tensor ids = Tensor::integers(DType::i32, {3, -1, 0, -100, 7});
  Workers workers(2);
  loss_sum(workers, losses.view(), ids.view(), sums.view(), false);
  EXPECT_EQ(sums.values(), (Values{3.875, 3}));
  loss_sum(workers, losses.view(), ids.view(), sums.view(), true);
  EXPECT_EQ(sums.values(), (Values{7.75, 6}));
  loss_sum(workers, losses.view(), ids.view(), sums.view(), true, false);
  EXPECT_EQ(sums.values(), (Values{7.75, 6}));
  loss_sum(workers, losses.view(), ids.view(), sums.view(), false, false);
  EXPECT_EQ(sums.values(), (Values{0, 0}));
}

}  // namespace
}  // namespace weft::cpu
