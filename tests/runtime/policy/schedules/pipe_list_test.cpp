#include "runtime/policy/schedules/pipe_list.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

// The time that the model of units tells is the simulated one.
TEST(PipeList, TheModelsTimeIsTheSimulators) {
  for (const char* name : {"pipe-list", "pipe-list:chunks=2", "pipe-list:chunks=2,placement=v"}) {
    const testing::PipelineToy toy(testing::shaped_for(
        name, {.stages = 4, .micro_batches = 12, .forward = 1000, .input = 1300, .weight = 700, .message = 200}));
    const auto plans = testing::checked_plans(toy.classes(), name, {.cost_model = toy.prices()});
    const double work = static_cast<double>(12 * toy.shape().chunks.chunks) * 3000;
    EXPECT_EQ(plan::selection_of(plans[0].reasons)->makespan_ns, testing::idle_times(toy, plans).of_step + work);
  }
}

// No worse than the published schedules that are about as simple.
TEST(PipeList, IsAsShortAsPublishedSchedules) {
  const testing::PipelineShape shape{.stages = 4, .micro_batches = 12, .input = 1300, .weight = 700, .message = 200};
  const auto idle = [&](const std::string& name) {
    const testing::PipelineToy toy(testing::shaped_for(name, shape));
    return testing::idle_times(toy, testing::checked_plans(toy.classes(), name, {.cost_model = toy.prices()})).of_step;
  };
  const double list = idle("pipe-list");
  EXPECT_LT(list, idle("gpipe"));
  EXPECT_LT(list, idle("1f1b"));
  EXPECT_LT(list, idle("zb-h1"));
  EXPECT_LT(idle("pipe-list:chunks=2"), idle("interleaved"));
  EXPECT_LT(idle("pipe-list:chunks=2,placement=v"), idle("zb-v"));
}

// Under a memory limit fewer micro-batches are in flight.
TEST(PipeList, KeepsMemoryLimits) {
  const testing::PipelineToy toy({.stages = 4, .micro_batches = 16, .message = 400, .saved = 4096});
  const PolicyOptions free{.cost_model = toy.prices()};
  std::int64_t least = 0, most = 0;
  for (const plan::Plan& plan : testing::checked_plans(toy.classes(), "1f1b", free))
    least = std::max(least, plan.scratch_bytes);
  for (const plan::Plan& plan : testing::checked_plans(toy.classes(), "pipe-list", free))
    most = std::max(most, plan.scratch_bytes);
  ASSERT_LT(least, most);
  for (const std::int64_t limit : {least, (least + most) / 2}) {
    const PolicyOptions options{.memory_limit = limit, .cost_model = toy.prices()};
    for (const char* name : {"pipe-list", "pipe-search"}) {
      for (const plan::Plan& plan : testing::checked_plans(toy.classes(), name, options))
        EXPECT_LE(plan.scratch_bytes, limit) << name;
    }
  }
}

TEST(PipeList, RefusesOtherPlacements) {
  EXPECT_THROW(make_policy("pipe-list:placement=w"), UserError);
  EXPECT_THROW(make_policy("pipe-list:chunks=0"), UserError);
}

}  // namespace
}  // namespace weft::policy
