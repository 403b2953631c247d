#include "runtime/policy/schedules/zb_h1.h"

#include <gtest/gtest.h>

#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

TEST(ZbH1, TheUnitsOfARank) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 3});
  const auto plans = testing::checked_plans(toy.classes(), "zb-h1", {.cost_model = toy.prices()});
  EXPECT_EQ(
      testing::reasons_of(plans[1]),
      (Strings{"zb-h1: warm-up, forward 1 of 1", "zb-h1: steady, forward 1 of 2",
               "zb-h1: steady, backward for the input 1 of 2", "zb-h1: steady, forward 2 of 2",
               "zb-h1: steady, backward for the input 2 of 2", "zb-h1: steady, backward for weights 1 of 1",
               "zb-h1: cool-down, backward for the input 1 of 1", "zb-h1: cool-down, backward for weights 1 of 1",
               "zb-h1: at the end, backward for weights 1 of 1", "after the last micro-batch, in program order"}));
}

// (p − 1)(F + B − W), where B is the part for the input, and every rank keeps p micro-batches.
TEST(ZbH1, IdlesAndKeepsActivationsAsPublished) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {p, 2 * p + 1}) {
      const testing::PipelineToy toy({.stages = p, .micro_batches = m, .forward = 1000, .input = 1200, .weight = 800});
      const auto plans = testing::checked_plans(toy.classes(), "zb-h1", {.cost_model = toy.prices()});
      EXPECT_EQ(testing::idle_times(toy, plans).of_step, static_cast<double>(p - 1) * (1000 + 1200 - 800));
      EXPECT_EQ(testing::most_activations(plans),
                std::vector<std::size_t>(static_cast<std::size_t>(p), static_cast<std::size_t>(p)));
    }
  }
}

}  // namespace
}  // namespace weft::policy
