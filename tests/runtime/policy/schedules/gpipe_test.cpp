#include "runtime/policy/schedules/gpipe.h"

#include <gtest/gtest.h>

#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

TEST(Gpipe, AllForwardPassesComeFirst) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2, .update = 10});
  const auto plans = testing::checked_plans(toy.classes(), "gpipe", {.cost_model = toy.prices()});
  EXPECT_EQ(testing::reasons_of(plans[1]),
            (Strings{"gpipe: all forward first, forward 1 of 2", "gpipe: all forward first, forward 2 of 2",
                     "gpipe: all backward last, backward 1 of 2", "gpipe: all backward last, backward 2 of 2",
                     "after the last micro-batch, in program order"}));
}

// (p − 1)(F + B). The weights' part of B is 0, as a toy would send its gradient before that part.
TEST(Gpipe, IdlesAndKeepsActivationsAsPublished) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {p, 2 * p + 1}) {
      const testing::PipelineToy toy({.stages = p, .micro_batches = m, .forward = 1000, .input = 1900, .weight = 0});
      const auto plans = testing::checked_plans(toy.classes(), "gpipe", {.cost_model = toy.prices()});
      EXPECT_EQ(testing::idle_times(toy, plans).of_step, static_cast<double>(p - 1) * 2900);
      EXPECT_EQ(testing::most_activations(plans),
                std::vector<std::size_t>(static_cast<std::size_t>(p), static_cast<std::size_t>(m)));
    }
  }
}

}  // namespace
}  // namespace weft::policy
