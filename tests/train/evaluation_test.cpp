#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ops/lower.h"
#include "runtime/comm/launch.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/reference_transformer.h"
#include "train/initial_weights.h"

namespace weft {
namespace {

constexpr std::int64_t kSeqLen = 8;

class EvaluationFamilies : public ::testing::TestWithParam<Family> {
 protected:
  EvaluationFamilies() {
    // 75 bytes below 19: 74 targets, in windows of 8 that no number of ranks divides.
    for (int i = 0; i < 75; ++i) text_.push_back(static_cast<std::byte>(i * i % 19));
    stream_.append({TokenEncoding::bytes, text_.data(), text_.size(), false});
  }

  Evaluation evaluate_on(int ranks, std::int64_t micro_batch, std::int64_t limit = 0) const {
    std::vector<Evaluation> results(static_cast<std::size_t>(ranks));
    const int code = run_ranks(ranks, [&](World& world) {
      StepConfig step;
      step.micro_batch = micro_batch;
      step.seq_len = kSeqLen;
      step.grid.data = ranks;
      Program program(world, {{"eval", lower_eval(model_, step)}}, {});
      for (const ParameterSpec& spec : model_parameters(model_)) {
        initialize_parameter(wide(spec), 3, DType::f32, program.state().data(spec.name), nullptr);
      }
      const EvalBatches batches(stream_, kSeqLen, {world.rank(), ranks, 1, micro_batch}, limit);
      results[static_cast<std::size_t>(world.rank())] = evaluate(program, batches);
      return 0;
    });
    EXPECT_EQ(code, 0);
    for (const Evaluation& result : results) {
      EXPECT_EQ(result.loss, results.front().loss);
      EXPECT_EQ(result.targets, results.front().targets);
    }
    return results.front();
  }

  static ParameterSpec wide(ParameterSpec spec) {
    if (spec.init == Init::normal) spec.std = 0.3F;
    return spec;
  }

  const ModelConfig model_ = tiny_model(GetParam());
  std::vector<std::byte> text_;
  TokenStream stream_;
};

INSTANTIATE_TEST_SUITE_P(Families, EvaluationFamilies, ::testing::Values(Family::gpt2, Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(EvaluationFamilies, IsTheExactMeanHoweverTheWorkIsCut) {
  ReferenceTransformer::Parameters parameters;
  for (const ParameterSpec& spec : model_parameters(model_)) {
    std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.cols));
    initialize_parameter(wide(spec), 3, DType::f32, values.data(), nullptr);
    ReferenceMatrix matrix(spec.rows, spec.cols);
    std::copy(values.begin(), values.end(), matrix.values.begin());
    parameters[spec.name] = std::move(matrix);
  }
  std::vector<std::int32_t> tokens(80, 0), targets(80, -1);  // ten windows, the last one cut short
  for (std::size_t i = 0; i + 1 < text_.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(text_[i]);
    targets[i] = static_cast<std::int32_t>(text_[i + 1]);
  }
  const double expected = ReferenceTransformer(model_, kSeqLen).loss(parameters, tokens, targets);
  struct Cut {
    int ranks;
    std::int64_t micro_batch;
  };
  for (const Cut& cut : {Cut{1, 1}, Cut{1, 3}, Cut{1, 16}, Cut{2, 1}, Cut{2, 4}, Cut{3, 2}, Cut{4, 1}}) {
    const Evaluation found = evaluate_on(cut.ranks, cut.micro_batch);
    EXPECT_NEAR(found.loss, expected, 1e-6 * expected) << cut.ranks << " ranks, micro-batch " << cut.micro_batch;
    EXPECT_EQ(found.targets, 74U);
  }
}

TEST_P(EvaluationFamilies, ALimitEvaluatesTheFirstTokensOnly) {
  EXPECT_EQ(evaluate_on(2, 1, 2).targets, 32U);
  EXPECT_EQ(evaluate_on(1, 2, 2).targets, 32U);
  EXPECT_NEAR(evaluate_on(2, 1, 2).loss, evaluate_on(1, 4, 1).loss, 1e-6);
}

// Ranks ask at moments of their own; all end after the batch before which one of them wanted to.
TEST(Evaluation, EndsForAllRanksWhenOneWantsToStop) {
  std::vector<std::byte> text(200, std::byte{1});
  TokenStream stream;
  stream.append({TokenEncoding::bytes, text.data(), text.size(), false});
  const ModelConfig model = tiny_model(Family::gpt2);
  for (const int ranks : {1, 2, 3}) {
    for (const bool by_signal : {true, false}) {
      const int code = run_ranks(ranks, [&](World& world) {
        StepConfig step;
        step.seq_len = kSeqLen;
        step.grid.data = ranks;
        Program program(world, {{"eval", lower_eval(model, step)}}, {});
        const EvalBatches batches(stream, kSeqLen, {world.rank(), ranks, 1, 1}, 0);
        const auto evaluate_until = [&](std::int64_t last) {
          std::int64_t asked = 0;
          return evaluate(program, batches, [&] {
            const bool now = ++asked == last && world.rank() == ranks - 1;
            return StopReasons{now && by_signal, now && !by_signal};
          });
        };
        const Evaluation stopped = evaluate_until(3);
        EXPECT_EQ(stopped.batches, 3);
        EXPECT_FALSE(stopped.complete);
        EXPECT_TRUE(std::isnan(stopped.loss));
        EXPECT_EQ(stopped.stop.signal, by_signal);
        EXPECT_EQ(stopped.stop.time, !by_signal);
        // Asked before the last batch, it is complete all the same.
        const Evaluation ended = evaluate_until(batches.size());
        EXPECT_TRUE(ended.complete);
        EXPECT_TRUE(ended.stop.any());
        const Evaluation whole = evaluate(program, batches);
        EXPECT_EQ(ended.loss, whole.loss);
        EXPECT_FALSE(whole.stop.any());
        EXPECT_EQ(whole.targets, 199U);
        return 0;
      });
      EXPECT_EQ(code, 0);
    }
  }
}

}  // namespace
}  // namespace weft
