#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "ops/lower.h"
#include "ops/sharding.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/data/written_tokens.h"
#include "tests/train/model_arrays.h"
#include "tests/train/reference_transformer.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

constexpr std::int64_t kTokensOfSequence = 8;

class EvaluationFamilies : public ::testing::TestWithParam<ops::Family> {
 protected:
  EvaluationFamilies() {
    // 75 ids below 19: 74 targets, in windows of 8 that no number of ranks divides.
    for (std::uint32_t i = 0; i < 75; ++i) ids_.push_back(i * i % 19);
    written_ = std::make_unique<testing::WrittenTokens>(ids_);
  }

  Evaluation evaluate_on(const graph::Grid& grid, std::int64_t micro_batch, std::int64_t limit = 0) const {
    std::vector<Evaluation> results(static_cast<std::size_t>(grid.ranks()));
    testing::on_ranks(static_cast<int>(grid.ranks()), [&](comm::World& world) {
      ops::StepConfig step;
      step.micro_batch = micro_batch;
      step.seq_len = kTokensOfSequence;
      step.grid = grid;
      const graph::Coordinates at = graph::coordinates_of(grid, world.rank());
      execute::Program program(world, {{"eval", ops::lower_eval(model_, step)}}, {.grid = grid});
      std::vector<ops::ParameterSpec> specs = ops::model_parameters(model_);
      for (ops::ParameterSpec& spec : specs) spec = wide(spec);
      for (const ops::ParameterShard& shard : ops::shard_parameters(model_, specs, grid, at)) {
        initialize_parameter(shard, 3, DType::f32, program.state().data(shard.spec->name), nullptr);
      }
      set_coordinates(program.state(), grid, at);
      set_first_position(program.state(), step, at);
      const BatchShare share{graph::batch_rank(grid, at),   grid.batch_ranks(), 1, micro_batch,
                             graph::context_rank(grid, at), grid.context};
      const EvalBatches batches(written_->stream(), kTokensOfSequence, share, limit);
      results[static_cast<std::size_t>(world.rank())] = evaluate(program, batches);
    });
    for (const Evaluation& result : results) {
      EXPECT_EQ(result.loss, results.front().loss);
      EXPECT_EQ(result.targets, results.front().targets);
    }
    return results.front();
  }

  static ops::ParameterSpec wide(ops::ParameterSpec spec) {
    if (spec.init == ops::Init::normal) spec.std = 0.3F;
    return spec;
  }

  const ops::ModelConfig model_ = testing::tiny_model(GetParam());
  std::vector<std::uint32_t> ids_;
  std::unique_ptr<const testing::WrittenTokens> written_;
};

INSTANTIATE_TEST_SUITE_P(Families, EvaluationFamilies, testing::kFamilies, testing::kNameOfParam);

TEST_P(EvaluationFamilies, IsTheExactMeanHoweverTheWorkIsCut) {
  testing::ReferenceTransformer::Parameters parameters;
  for (const ops::ParameterSpec& spec : ops::model_parameters(model_)) {
    const std::vector<float> values = testing::initial_values(wide(spec), 3);
    testing::ReferenceMatrix matrix(spec.rows, spec.cols);
    std::copy(values.begin(), values.end(), matrix.values.begin());
    parameters[spec.name] = std::move(matrix);
  }
  std::vector<std::int32_t> tokens(80, 0), targets(80, -1);  // ten windows, the last one cut short
  for (std::size_t i = 0; i + 1 < ids_.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(ids_[i]);
    targets[i] = static_cast<std::int32_t>(ids_[i + 1]);
  }
  const double expected = testing::ReferenceTransformer(model_, kTokensOfSequence).loss(parameters, tokens, targets);
  struct Cut {
    std::int64_t ranks, micro_batch;
  };
  for (const Cut& cut : {Cut{1, 1}, Cut{1, 3}, Cut{1, 16}, Cut{2, 1}, Cut{2, 4}, Cut{3, 2}, Cut{4, 1}}) {
    const Evaluation found = evaluate_on({.data = cut.ranks}, cut.micro_batch);
    EXPECT_NEAR(found.loss, expected, 1e-6 * expected) << cut.ranks << " ranks, micro-batch " << cut.micro_batch;
    EXPECT_EQ(found.targets, 74U);
  }
}

// Five sequences, which 2 ranks and micro-batches of 2 and 4 don't divide.
TEST_P(EvaluationFamilies, ALimitEvaluatesTheSameSequencesOnEveryGrid) {
  const Evaluation expected = evaluate_on(graph::Grid{}, 1, 5);
  EXPECT_EQ(expected.targets, 40U);
  EXPECT_NE(expected.loss, evaluate_on(graph::Grid{}, 1, 6).loss);
  for (const graph::Grid& grid : {graph::Grid{}, graph::Grid{.data = 2}, graph::Grid{.z = 2},
                                  graph::Grid{.z = 2, .context = 2}, graph::Grid{.z = 4, .context = 2}}) {
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      const Evaluation found = evaluate_on(grid, micro_batch, 5);
      EXPECT_EQ(found.targets, expected.targets) << graph::to_string(grid) << ", micro-batch " << micro_batch;
      EXPECT_NEAR(found.loss, expected.loss, 1e-6 * expected.loss)
          << graph::to_string(grid) << ", micro-batch " << micro_batch;
    }
  }
}

// Ranks ask to stop at different moments; all end after the batch before which the first rank asked.
TEST(Evaluation, EndsForAllRanksWhenOneWantsToStop) {
  const testing::WrittenTokens written(std::vector<std::uint32_t>(200, 1));
  const ops::ModelConfig model = testing::tiny_model(ops::Family::gpt2);
  for (const int ranks : {1, 2, 3}) {
    for (const bool by_signal : {true, false}) {
      testing::on_ranks(ranks, [&](comm::World& world) {
        ops::StepConfig step;
        step.seq_len = kTokensOfSequence;
        step.grid.data = ranks;
        execute::Program program(world, {{"eval", ops::lower_eval(model, step)}}, {});
        const EvalBatches batches(written.stream(), kTokensOfSequence, {world.rank(), ranks, 1, 1}, 0);
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
      });
    }
  }
}

TEST(AffordableSequences, AreAMinuteOrAShareOfTheRun) {
  EXPECT_EQ(affordable_sequences(0.5, 100, 2, 0), 120);           // a minute: 5 % of the run are 7.5 s
  EXPECT_EQ(affordable_sequences(0.5, 1'000'000, 2, 0), 75'000);  // 1,500,000 s of steps, of which each has 2.5 %
  EXPECT_EQ(affordable_sequences(0.5, 1'000'000, 5, 0), 30'000);
  EXPECT_EQ(affordable_sequences(0.5, 1'000'000, 2, 8000), 400);  // 2.5 % of 8000 s
  EXPECT_EQ(affordable_sequences(0.5, 1'000'000, 2, 100), 120);
  EXPECT_EQ(affordable_sequences(600, 10, 2, 0), 1);
}

}  // namespace
}  // namespace weft::train
