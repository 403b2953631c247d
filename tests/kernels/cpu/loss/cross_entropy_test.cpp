// Cross-entropy and its gradient, of whole rows and of rows in parts, compared with double precision.
#include "kernels/cpu/loss/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

/// Softmax cross-entropy in double precision, and its gradient.
struct LossReference {
  Values losses, gradient;  // zero where there is no target
};

/// `logits`: a row for each target, of which the first `vocab` columns count; `scale`: the gradient of each loss.
LossReference loss_in_double(std::int64_t vocab, const Values& logits, const std::vector<std::int64_t>& targets,
                             double scale) {
  LossReference result{{}, Values(logits.size())};
  const std::size_t cols = logits.size() / targets.size();
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double* row = logits.data() + r * cols;
    const double top = *std::max_element(row, row + vocab);
    double total = 0;
    for (std::int64_t c = 0; c < vocab; ++c) total += std::exp(row[c] - top);
    result.losses.push_back(targets[r] < 0 ? 0.0 : std::log(total) + top - row[targets[r]]);
    for (std::int64_t c = 0; targets[r] >= 0 && c < vocab; ++c) {
      result.gradient[r * cols + static_cast<std::size_t>(c)] =
          (std::exp(row[c] - top) / total - (c == targets[r] ? 1.0 : 0.0)) * scale;
    }
  }
  return result;
}

/// Targets of which every fourth is none.
std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < rows; ++r) targets.push_back(r % 4 == 3 ? -1 - r : r * 31 % vocab);
  return targets;
}

class CrossEntropy : public testing::ForFloatTypes {
 protected:
  /// Compares rows with double precision, with and without a gradient.
  void expect_agreement(std::int64_t vocab, Tensor logits, const std::vector<std::int64_t>& targets,
                        double scale) const {
    const std::int64_t rows = std::ssize(targets);
    Tensor unchanged = logits, ids = Tensor::integers(DType::i32, targets), factor(DType::f32, 1, 1, Values{scale});
    Tensor losses(DType::f32, 1, rows), plain(DType::f32, 1, rows);
    const LossReference expected = loss_in_double(vocab, logits.values(), targets, scale);
    const Values before = logits.values();
    const Matrix grad_scale = factor.view();
    testing::run_on_one_and_three_threads(
        cross_entropy_scratch(vocab, GetParam(), true), {&logits, &losses, &plain}, [&](Workers& workers) {
          cross_entropy(workers, vocab, unchanged.view(), ids.view(), plain.view(), nullptr);
          cross_entropy(workers, vocab, logits.view(), ids.view(), losses.view(), &grad_scale);
        });
    EXPECT_EQ(unchanged.values(), before);
    EXPECT_EQ(plain.bytes(), losses.bytes());
    testing::expect_close(losses.values(), expected.losses, {1e-6, 2e-6}, "losses");
    testing::expect_close(logits.values(), expected.gradient, testing::tolerance_of(GetParam(), 1e-7), "gradient");
  }
  void expect_row(const Values& values, std::int64_t target, double scale) const {
    expect_agreement(std::ssize(values), {GetParam(), 1, std::ssize(values), values}, {target}, scale);
  }
};

TEST_P(CrossEntropy, LossesAndGradients) {
  for (const auto& [rows, vocab, padded] : {std::array<std::int64_t, 3>{1, 1, 1},
                                            {5, 3, 3},
                                            {40, 65, 128},
                                            {9, 5003, 5003},
                                            {9, 5003, 5120},
                                            {2, 530001, 530001}}) {
    expect_agreement(vocab, Tensor::random(GetParam(), rows, padded, 1, 4.0, 2), some_targets(rows, vocab), 0.125);
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The work of all ranks that share a vocabulary, one rank after the other. logits [rows, parts·cols]; gradients replace
// them.
class Parts {
 public:
  Parts(std::int64_t vocab, std::int64_t parts, Tensor logits, const std::vector<std::int64_t>& targets)
      : vocab_(vocab),
        parts_(parts),
        rows_(static_cast<std::int64_t>(targets.size())),
        logits_(std::move(logits)),
        targets_(Tensor::integers(DType::i32, targets)),
        statistics_(DType::f32, parts * rows_, 3),
        losses_(DType::f32, parts, rows_) {}

  void run(Workers& workers, bool gradient) {
    const Matrix scale = grad_scale_.view();
    for (std::int64_t p = 0; p < parts_; ++p) {
      const Matrix statistics{statistics_.view().f32(p * rows_), rows_, 3, 3, DType::f32};
      vocab_statistics(workers, {p, vocab_}, part(p), targets_.view(), statistics);
    }
    for (std::int64_t p = 0; p < parts_; ++p) {
      const Matrix losses{losses_.view().f32(p), 1, rows_, rows_, DType::f32};
      vocab_cross_entropy(workers, {p, vocab_}, parts_, part(p), targets_.view(), statistics_.view(), losses,
                          gradient ? &scale : nullptr);
    }
  }

  // The losses of one rank; all ranks have the same losses.
  Values losses() {
    const Values all = losses_.values();
    const auto rows = static_cast<std::size_t>(rows_);
    for (std::size_t i = rows; i < all.size(); ++i) {
      EXPECT_TRUE(all[i] == all[i % rows] || std::isnan(all[i])) << all[i] << " and " << all[i % rows];
    }
    return {all.begin(), all.begin() + rows_};
  }
  Matrix part(std::int64_t p) {
    const std::int64_t cols = logits_.view().cols / parts_;
    return logits_.columns(p * cols, cols);
  }
  Tensor& logits() { return logits_; }
  Tensor& losses_of_ranks() { return losses_; }
  Tensor& statistics() { return statistics_; }
  static constexpr double kScale = 0.125;

 private:
  std::int64_t vocab_, parts_, rows_;
  Tensor logits_, targets_, statistics_, losses_;
  Tensor grad_scale_{DType::f32, 1, 1, Values{kScale}};
};

struct Shape {
  std::int64_t rows, vocab, cols, parts;  // cols: of a part
};

class VocabParallel : public testing::ForFloatTypes {};

TEST_P(VocabParallel, AgreesWithDoublePrecisionAndWithTheWholeVocabulary) {
  const DType dtype = GetParam();
  // The last part of {40, 65, 33, 3} and the last two of {5, 3, 2, 4} are padding only.
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, {5, 3, 2, 4}, {40, 65, 33, 3}, {9, 5003, 5120, 1}, {9, 5003, 2560, 2}}) {
    const std::vector<std::int64_t> targets = some_targets(shape.rows, shape.vocab);
    const std::int64_t padded = shape.cols * shape.parts;
    Tensor whole = Tensor::random(dtype, shape.rows, padded, 1, 4.0, 2), losses(DType::f32, 1, shape.rows);
    Parts parts(shape.vocab, shape.parts, whole, targets), without_gradient(shape.vocab, shape.parts, whole, targets);
    const LossReference expected = loss_in_double(shape.vocab, whole.values(), targets, Parts::kScale);
    testing::run_on_one_and_three_threads(
        {}, {&parts.logits(), &parts.losses_of_ranks(), &parts.statistics(), &without_gradient.losses_of_ranks()},
        [&](Workers& workers) {
          parts.run(workers, true);
          without_gradient.run(workers, false);
        });
    EXPECT_EQ(without_gradient.logits().bytes(), whole.bytes());
    EXPECT_EQ(without_gradient.losses(), parts.losses());
    testing::expect_close(parts.losses(), expected.losses, {1e-6, 2e-6}, "losses");
    testing::expect_close(parts.logits().values(), expected.gradient, testing::tolerance_of(dtype, 1e-7), "gradient");

    Tensor scale(DType::f32, 1, 1, Values{Parts::kScale}), ids = Tensor::integers(DType::i32, targets);
    const Matrix grad_scale = scale.view();
    Workers workers(1);
    workers.reserve(cross_entropy_scratch(shape.vocab, dtype, true));
    cross_entropy(workers, shape.vocab, whole.view(), ids.view(), losses.view(), &grad_scale);
    testing::expect_close(parts.losses(), losses.values(), {1e-6, 1e-6}, "losses of the whole");
    // If the target has nearly all of the probability, p − 1 is a difference of nearly equal numbers.
    testing::expect_close(parts.logits().values(), whole.values(), {dtype == DType::bf16 ? 0x1p-7 : 2e-6, 3e-8},
                          "gradient of the whole");
  }
}

TEST_P(VocabParallel, LargeAndMaskedLogitsStayFinite) {
  const DType dtype = GetParam();
  const std::vector<std::int64_t> targets = {2, 0, 3};
  Tensor logits(dtype, 3, 4,
                {1000, -1000, 998, 0, 0.5, 1, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, 3});
  const LossReference expected = loss_in_double(4, logits.values(), targets, Parts::kScale);
  Parts parts(4, 2, std::move(logits), targets);
  Workers workers(1);
  parts.run(workers, true);
  testing::expect_close(parts.losses(), expected.losses, {1e-6, 1e-6});
  testing::expect_close(parts.logits().values(), expected.gradient, testing::tolerance_of(dtype, 1e-7));
}

// A NaN must show even in a part whose largest logit would otherwise be −∞.
TEST_P(VocabParallel, NanShowsInTheLoss) {
  const DType dtype = GetParam();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double others : {0.5, -kInfinity}) {
    Values values(40, others);
    std::fill(values.begin(), values.begin() + 20, 0.5);
    values[31] = kNan;
    Parts parts(40, 2, {dtype, 1, 40, values}, {2});
    Workers workers(1);
    parts.run(workers, false);
    EXPECT_TRUE(std::isnan(parts.losses()[0]));
  }
}

TEST_P(VocabParallel, TargetsOutsideTheVocabularyAreFaults) {
  Tensor logits = Tensor::random(GetParam(), 1, 4, 1), losses(DType::f32, 1, 1), statistics(DType::f32, 2, 3);
  Tensor ids = Tensor::integers(DType::i32, {6});  // in the padding of the second of two parts
  Workers workers(1);
  for (std::int64_t p : {0, 1}) {
    EXPECT_THROW(vocab_statistics(workers, {p, 6}, logits.view(), ids.view(), statistics.view()), RuntimeFault);
    EXPECT_THROW(
        vocab_cross_entropy(workers, {p, 6}, 2, logits.view(), ids.view(), statistics.view(), losses.view(), nullptr),
        RuntimeFault);
  }
}

TEST_P(VocabParallel, PartsHoldTheVocabulary) {
  Tensor logits = Tensor::random(GetParam(), 1, 4, 1), losses(DType::f32, 1, 1), statistics(DType::f32, 2, 3);
  Tensor ids = Tensor::integers(DType::i32, {8});
  Workers workers(1);
  EXPECT_THROW(
      vocab_cross_entropy(workers, {0, 9}, 2, logits.view(), ids.view(), statistics.view(), losses.view(), nullptr),
      std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Types, VocabParallel, testing::both_float_types(), testing::type_name);

}  // namespace
}  // namespace weft::cpu
