#include "runtime/plan/recording.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace weft::plan {
namespace {

/// a [0, 40) on compute0, r [40, 70) on data, c [70, 100) on compute0; x lives from a to r, y only in c.
struct Recorded {
  Plan plan;
  StepTrace trace;

  Recorded() {
    graph::GraphBuilder builder(graph::Arguments::of_any_form);
    const auto tensor = [&](const char* name) {
      return graph::whole(builder, builder.add_tensor({name, DType::f32, {4}, graph::Role::activation}));
    };
    const graph::View x = tensor("x"), y = tensor("y");
    const graph::TaskId a = builder.add_task({"L1.a", graph::Gemm{1, 4, 1}, {graph::write(x)}, 1, 0});
    const graph::TaskId r = builder.add_task(
        {"r", graph::AllReduce{graph::Channel::data, 2, 4}, {graph::read_write(x)}, -1, -1, graph::Phase::backward});
    const graph::TaskId c =
        builder.add_task({"c", graph::GeluForward{4}, {graph::write(y)}, -1, -1, graph::Phase::update});
    Order order;
    order.streams = {{"compute0", true, graph::Channel::world}, {"data", false, graph::Channel::data}};
    order.reasons = {{.text = ""}, {.text = "as soon as its gradient is there"}};
    order.sequence = {{a, StreamId(0), 0}, {r, StreamId(1), 1}, {c, StreamId(0), 0}};
    plan = make_plan(std::make_shared<const graph::Graph>(std::move(builder).build()), order, "by hand");
    trace = {7, 1000, 1100, {{{1000, 1040}, {1070, 1100}}, {{1040, 1070}}}};
  }
  Recording recording() const {
    const std::vector<RankTrace> ranks = {{3, {trace}}};
    return record(plan, ranks, 4, graph::Grid{.data = 4});
  }
};

TEST(Recording, HasTasksInThePlansOrderWithTheirTimes) {
  const Recording recording = Recorded().recording();
  EXPECT_EQ(recording.policy, "by hand");
  EXPECT_EQ(recording.world, 4);
  ASSERT_EQ(recording.tasks.size(), 3U);
  EXPECT_EQ(recording.tasks[0].name, "L1.a");
  EXPECT_EQ(recording.tasks[0].layer, 1);
  EXPECT_EQ(recording.tasks[0].kind, "gemm");
  EXPECT_EQ(recording.tasks[0].flops, 8);
  EXPECT_EQ(recording.tasks[1].channel, "data");
  EXPECT_EQ(recording.tasks[1].group_size, 4);
  EXPECT_EQ(recording.tasks[1].phase, graph::Phase::backward);
  EXPECT_EQ(recording.tasks[1].reason, "as soon as its gradient is there");
  EXPECT_EQ(recording.tasks[2].stream, 0U);
  ASSERT_EQ(recording.ranks.size(), 1U);
  EXPECT_EQ(recording.ranks[0].rank, 3);
  const RecordedStep& step = recording.ranks[0].steps.at(0);
  EXPECT_EQ(step.step, 7);
  EXPECT_EQ(step.times[1].begin, 1040);
  EXPECT_EQ(step.times[2].end, 1100);
}

TEST(Recording, KeepsTheGraphsEdges) {
  const Recording recording = Recorded().recording();
  ASSERT_FALSE(recording.edges.empty());
  EXPECT_EQ(recording.edges[0], (RecordedEdge{.from = 0, .to = 1}));
}

TEST(Recording, MemoryIsAliveFromFirstAccessToLast) {
  const Recording recording = Recorded().recording();
  EXPECT_EQ(recording.tasks[0].allocates, 16);
  EXPECT_EQ(recording.tasks[1].frees, 16);
  EXPECT_EQ(recording.tasks[2].allocates, 16);
  const std::vector<MemoryPoint> curve = memory_curve(recording, recording.ranks[0].steps[0]);
  EXPECT_EQ(curve, (std::vector<MemoryPoint>{{1000, 16}, {1070, 16}, {1100, 0}}));
}

TEST(Recording, SumsAreThoseOfThePlan) {
  const Recorded recorded;
  const Recording recording = recorded.recording();
  const OverlapSummary own = summarize(recording, recording.ranks[0].steps[0]);
  const OverlapSummary planned = summarize(recorded.plan, recorded.trace);
  EXPECT_EQ(own.step, planned.step);
  EXPECT_EQ(own.compute, 70);
  EXPECT_EQ(own.compute, planned.compute);
  EXPECT_EQ(own.exposed, 30);
  EXPECT_EQ(own.exposed, planned.exposed);
}

TEST(Recording, RefusesTheStepOfAnotherPlan) {
  const Recorded recorded;
  std::vector<RankTrace> ranks = {{0, {recorded.trace}}};
  ranks[0].steps[0].times.pop_back();
  EXPECT_THROW(record(recorded.plan, ranks, 1), std::logic_error);
}

}  // namespace
}  // namespace weft::plan
