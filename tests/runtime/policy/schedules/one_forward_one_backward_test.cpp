#include "runtime/policy/schedules/one_forward_one_backward.h"

#include <gtest/gtest.h>

#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

TEST(OneForwardOneBackward, TheUnitsOfARank) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 3});
  const auto plans = testing::checked_plans(toy.classes(), "1f1b", {.cost_model = toy.prices()});
  EXPECT_EQ(testing::reasons_of(plans[1]),
            (Strings{"1f1b: warm-up, forward 1 of 1", "1f1b: steady, forward 1 of 2", "1f1b: steady, backward 1 of 2",
                     "1f1b: steady, forward 2 of 2", "1f1b: steady, backward 2 of 2",
                     "1f1b: cool-down, backward 1 of 1", "after the last micro-batch, in program order"}));
}

// (p − 1)(F + B), and rank k keeps p − k micro-batches.
TEST(OneForwardOneBackward, IdlesAndKeepsActivationsAsPublished) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {p, 2 * p + 1}) {
      const testing::PipelineToy toy({.stages = p, .micro_batches = m, .forward = 1000, .input = 1900, .weight = 0});
      const auto plans = testing::checked_plans(toy.classes(), "1f1b", {.cost_model = toy.prices()});
      EXPECT_EQ(testing::idle_times(toy, plans).of_step, static_cast<double>(p - 1) * 2900);
      std::vector<std::size_t> kept;
      for (std::int64_t k = 0; k < p; ++k) kept.push_back(static_cast<std::size_t>(p - k));
      EXPECT_EQ(testing::most_activations(plans), kept);
    }
  }
}

// A backward pass sends the gradient of its input as soon as that is there: the next rank doesn't wait for gradients of
// weights that come later in the program.
TEST(OneForwardOneBackward, AGradientLeavesAsEarlyAsTheProgramHasIt) {
  const testing::PipelineToy toy({.stages = 4, .micro_batches = 8, .forward = 1000, .input = 1000, .weight = 900});
  const auto plans = testing::checked_plans(toy.classes(), "1f1b", {.cost_model = toy.prices()});
  EXPECT_EQ(testing::idle_times(toy, plans).of_step, 3 * 2000);
}

}  // namespace
}  // namespace weft::policy
