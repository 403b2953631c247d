#include "runtime/policy/schedules/pipe_search.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

double idle_time_of(const std::string& name, const testing::PipelineShape& shape) {
  return testing::ScheduledToy(name, shape).idle().of_step;
}

// The time that the model of units tells is the simulated one.
TEST(PipeList, TheModelsTimeIsTheSimulators) {
  for (const char* name : {"pipe-list", "pipe-list:chunks=2", "pipe-list:chunks=2,placement=v"}) {
    const testing::ScheduledToy done(
        name, {.stages = 4, .micro_batches = 12, .forward = 1000, .input = 1300, .weight = 700, .message = 200});
    const double work = static_cast<double>(12 * done.toy.shape().chunks.chunks) * 3000;
    EXPECT_EQ(plan::selection_of(done.plans[0].reasons)->makespan_ns, done.idle().of_step + work);
  }
}

// No worse than the published schedules that are about as simple.
TEST(PipeList, IsAsShortAsPublishedSchedules) {
  const testing::PipelineShape shape{.stages = 4, .micro_batches = 12, .input = 1300, .weight = 700, .message = 200};
  const auto idle = [&](const std::string& name) { return idle_time_of(name, shape); };
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
  const std::int64_t least = testing::most_scratch(testing::checked_plans(toy.classes(), "1f1b", free)),
                     most = testing::most_scratch(testing::checked_plans(toy.classes(), "pipe-list", free));
  ASSERT_LT(least, most);
  for (const std::int64_t limit : {least, (least + most) / 2}) {
    const PolicyOptions options{.memory_limit = limit, .cost_model = toy.prices()};
    for (const char* name : {"pipe-list", "pipe-search"})
      EXPECT_LE(testing::most_scratch(testing::checked_plans(toy.classes(), name, options)), limit) << name;
  }
}

TEST(PipeList, RefusesOtherPlacements) {
  EXPECT_THROW(make_policy("pipe-list:placement=w"), UserError);
  EXPECT_THROW(make_policy("pipe-list:chunks=0"), UserError);
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
