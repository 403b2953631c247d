#include "runtime/policy/schedules/zb_v.h"

#include <gtest/gtest.h>

#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

// No rank idles between its first unit and its last; the last rank begins p − 1 chunks later. 2p chunks are the
// activations of p micro-batches.
TEST(ZbV, IdlesAndKeepsActivationsAsPublished) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * p, 3 * p + 1}) {
      const testing::PipelineToy toy(testing::shaped_for("zb-v", {.stages = p, .micro_batches = m}));
      const auto plans = testing::checked_plans(toy.classes(), "zb-v", {.cost_model = toy.prices()});
      const testing::IdleTimes idle = testing::idle_times(toy, plans);
      EXPECT_EQ(idle.of_ranks, 0);
      EXPECT_EQ(idle.of_step, static_cast<double>(p - 1) * 1000);
      EXPECT_EQ(testing::most_activations(plans),
                std::vector<std::size_t>(static_cast<std::size_t>(p), static_cast<std::size_t>(2 * p)));
    }
  }
}

TEST(ZbV, TakesAnyNumberOfMicroBatches) {
  for (std::int64_t m = 1; m <= 8; ++m) {
    const testing::PipelineToy toy(testing::shaped_for("zb-v", {.stages = 4, .micro_batches = m}));
    testing::checked_plans(toy.classes(), "zb-v", {.cost_model = toy.prices()});
  }
}

}  // namespace
}  // namespace weft::policy
