#include "runtime/plan/checker_replay.h"

#include <gtest/gtest.h>

#include "runtime/plan/plan_waits.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

// Two pieces of code that share nothing: edges in issue order there, waits in order of readiness here.
void expect_the_planners_clocks(const std::vector<const Plan*>& plans) {
  const Replay replay(plans);
  ASSERT_TRUE(replay.complete());
  EXPECT_TRUE(Replay(plans, Replay::Queues::one).complete());
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const HappensBefore order(*plans[k]);
    for (std::size_t i = 0; i < plans[k]->graph->tasks().size(); ++i) {
      for (std::size_t s = 0; s < plans[k]->streams.size(); ++s) {
        EXPECT_EQ(replay.clocks(k).clock(graph::TaskId(i), s), order.known(graph::TaskId(i))[s])
            << "class " << k << ": task " << i << ", stream " << s;
      }
    }
  }
}

TEST(Replay, AgreesWithThePlannersClocks) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const Plan plan = make_plan(graph, testing::RandomPolicy(seed, 4).order(*graph, {2}), "random");
    expect_the_planners_clocks({&plan});
  }
}

TEST(Replay, OtherClassesDontChangeAClock) {
  for (const std::int64_t stages : {2, 4}) {
    const testing::PipelineToy toy({.stages = stages, .micro_batches = 6, .world = true, .embedding = true});
    const std::vector<Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
    expect_the_planners_clocks(testing::pointers_to(plans));
  }
}

}  // namespace
}  // namespace weft::plan
