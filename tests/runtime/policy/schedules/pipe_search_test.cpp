#include "runtime/policy/schedules/pipe_search.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

double idle_time_of(const std::string& name, const testing::PipelineShape& shape) {
  const testing::PipelineToy toy(testing::shaped_for(name, shape));
  const auto plans = testing::checked_plans(toy.classes(), name, {.cost_model = toy.prices()});
  return testing::idle_times(toy, plans).of_step;
}

// The search starts from the best published schedule or list schedule, and never loses what it has.
TEST(PipeSearch, IsNeverLongerThanItsStarts) {
  for (const double message : {0.0, 700.0}) {
    const testing::PipelineShape shape{
        .stages = 4, .micro_batches = 8, .input = 1100, .weight = 500, .message = message};
    const double found = idle_time_of("pipe-search:moves=300", shape);
    for (const char* start : {"gpipe", "1f1b", "zb-h1", "pipe-list"}) EXPECT_LE(found, idle_time_of(start, shape));
    const double in_v = idle_time_of("pipe-search:chunks=2,placement=v,moves=300", shape);
    for (const char* start : {"zb-v", "dualpipe-v", "pipe-list:chunks=2,placement=v"})
      EXPECT_LE(in_v, idle_time_of(start, shape));
  }
}

TEST(PipeSearch, MovesShortenTheStep) {
  testing::PipelineShape shape{.stages = 3, .micro_batches = 5, .input = 1700, .weight = 300, .message = 900};
  EXPECT_LE(idle_time_of("pipe-search:moves=3000", shape), idle_time_of("pipe-search:moves=0", shape));
}

// Losses and gradients of micro-batches add up in their order, so a search keeps it.
TEST(PipeSearch, KeepsTheOrderOfMicroBatches) {
  const testing::PipelineToy toy({.stages = 4, .micro_batches = 8, .input = 1300, .weight = 600, .message = 500});
  const auto plans = testing::checked_plans(toy.classes(), "pipe-search:moves=2000", {.cost_model = toy.prices()});
  for (const plan::Plan& plan : plans) {
    std::map<std::string, std::int32_t> last;
    for (const graph::TaskId id : plan.sequence) {
      const graph::Task& task = plan.graph->task(id);
      if (task.micro_batch < 0 || graph::is_collective(task.operation)) continue;
      const std::string kind = task.name.substr(task.name.find('.'));
      EXPECT_EQ(task.micro_batch, last.contains(kind) ? last[kind] + 1 : 0) << task.name;
      last[kind] = task.micro_batch;
    }
  }
}

TEST(PipeSearch, SeedsDecide) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 5, .input = 1700, .message = 900});
  const PolicyOptions options{.seed = 3, .cost_model = toy.prices()};
  const auto orders = [&](const char* name) { return make_policy(name)->orders(toy.classes(), options); };
  EXPECT_EQ(orders("pipe-search:moves=200"), orders("pipe-search:moves=200,seed=3"));
}

}  // namespace
}  // namespace weft::policy
