#include "runtime/policy/builtin/program.h"

#include <gtest/gtest.h>

#include "runtime/plan/checker.h"
#include "runtime/plan/checker_replay.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/program_order.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

TEST(SerialPolicy, BlocksOnEveryCollective) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  toy.compute("d", {graph::read(y)});  // needs nothing of c
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(SerialPolicy(), *graph), "serial");
  EXPECT_EQ(testing::waits_of(plan, "c"), Strings{"compute0:b"});
  EXPECT_EQ(testing::waits_of(plan, "d"), Strings{"data:c"});
  EXPECT_EQ(plan.reasons[testing::entry_of(plan, "c").reason], plan::Reason{.table = &SerialPolicy::kReasons});
  EXPECT_EQ(plan.reasons[testing::entry_of(plan, "d").reason],
            (plan::Reason{.table = &kProgramReasons, .code = kProgramOrder}));
}

TEST(SerialPolicy, RunsOneTaskAtATimeAlsoAcrossSteps) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed, {.channels = 3});
    const plan::Plan plan =
        plan::make_plan(graph, testing::order_of(SerialPolicy(), *graph, {.compute_streams = 3}), "serial");
    EXPECT_EQ(std::ranges::count_if(plan.streams, [](const plan::StreamPlan& s) { return s.stream.compute; }), 1);
    const plan::Plan* const one = &plan;
    const plan::Replay replay({&one, 1});
    const plan::Clocks& clocks = replay.clocks(0);
    for (std::size_t i = 1; i < graph->tasks().size(); ++i)
      EXPECT_TRUE(clocks.before(graph::TaskId(i - 1), graph::TaskId(i), 0));
    EXPECT_TRUE(clocks.before(graph::TaskId(graph->tasks().size() - 1), graph::TaskId(std::size_t{0}), 1));
  }
}

TEST(ProgramPolicy, WaitsWhereACollectivesResultIsUsedAndNotBefore) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8), z = toy.tensor("z", 8);
  toy.compute("a", {graph::read_write(x)});
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  toy.compute("b", {graph::write(y)});
  toy.compute("d", {graph::read(y), graph::read(x), graph::write(z)});
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(ProgramPolicy(), *graph), "program");
  EXPECT_EQ(testing::waits_of(plan, "c"), Strings{"compute0:a"});
  EXPECT_EQ(testing::waits_of(plan, "b"), Strings{});
  EXPECT_EQ(testing::waits_of(plan, "d"), Strings{"data:c"});
  EXPECT_TRUE(plan.added_edges.empty());
}

std::string stream_of(const plan::Plan& plan, const std::string& task) {
  return plan.streams[plan.position[plan.graph->find_task(task).index()].stream.index()].stream.name;
}

class TwoMicroBatches : public ::testing::Test {
 protected:
  TwoMicroBatches() {
    const graph::View dy = toy_.tensor("dy", 64), dw = toy_.tensor("dw", 64, graph::Role::gradient);
    const graph::View db = toy_.tensor("db", 8, graph::Role::gradient), dx = toy_.tensor("dx", 64);
    const graph::View wte = toy_.tensor("dwte", 64, graph::Role::gradient);
    toy_.add({"loss", graph::Add{64}, {graph::write(dy)}});
    for (const int mb : {0, 1}) {
      const std::string suffix = std::to_string(mb);
      const bool accumulate = mb == 1;
      const auto out = [&](const graph::View& view) {
        return accumulate ? graph::read_write(view) : graph::write(view);
      };
      const auto add = [&](const char* name, const graph::Operation& operation, std::vector<graph::Access> accesses,
                           std::int32_t layer) {
        toy_.add(name + suffix, operation, std::move(accesses), layer, mb, graph::Phase::backward);
      };
      add("dw", graph::Gemm{8, 8, 8, true, false, accumulate}, {graph::read(dy), graph::read(dy), out(dw)}, 0);
      add("db", graph::BiasGradient{8, 8, accumulate}, {graph::read(dy), out(db)}, 0);
      add("di", graph::Gemm{8, 8, 8}, {graph::read(dy), graph::read(dy), graph::write(dx)}, 0);
      add("dwte", graph::EmbeddingBackward{8, 8, 8, accumulate}, {graph::read(dx), graph::read(dx), out(wte)}, -1);
    }
    // The same operation in the forward pass (a recomputation) stays where it is.
    toy_.add("forward", graph::Gemm{8, 8, 8, true}, {graph::read(dy), graph::read(dy), graph::write(dx)}, 0, 0);
    graph_ = toy_.build();
  }
  plan::Plan planned(int streams) const {
    return plan::make_plan(graph_, testing::order_of(ProgramPolicy(), *graph_, {.compute_streams = streams}),
                           "program");
  }
  testing::ToyGraph toy_;
  std::shared_ptr<const graph::Graph> graph_;
};

TEST_F(TwoMicroBatches, WeightGradientsLeaveTheFirstStreamWhenThereIsASecond) {
  const plan::Plan plan = planned(2);
  for (const std::string mb : {"0", "1"}) {
    EXPECT_EQ(stream_of(plan, "dw" + mb), "compute1");
    EXPECT_EQ(stream_of(plan, "db" + mb), "compute1");
    EXPECT_EQ(stream_of(plan, "dwte" + mb), "compute1");
    EXPECT_EQ(stream_of(plan, "di" + mb), "compute0");
  }
  EXPECT_EQ(stream_of(plan, "forward"), "compute0");
  for (const auto& [task, code] :
       {std::pair("dw0", kWeightGradient), {"db0", kBiasGradient}, {"dwte1", kEmbeddingGradient}}) {
    EXPECT_EQ(plan.reasons[testing::entry_of(plan, task).reason],
              (plan::Reason{.table = &kProgramReasons, .code = code}));
  }
}

TEST_F(TwoMicroBatches, ContributionsToOneGradientStayOnOneStream) {
  const plan::Plan plan = planned(3);
  EXPECT_EQ(stream_of(plan, "dw0"), "compute1");
  EXPECT_EQ(stream_of(plan, "db0"), "compute2");
  EXPECT_EQ(stream_of(plan, "dw1"), "compute1");
  EXPECT_EQ(stream_of(plan, "db1"), "compute2");
}

TEST_F(TwoMicroBatches, OneStreamKeepsProgramOrder) {
  const plan::Plan plan = planned(1);
  ASSERT_EQ(plan.streams.size(), 1U);
  for (std::size_t i = 0; i < graph_->tasks().size(); ++i) {
    EXPECT_EQ(plan.streams[0].entries[i].task, graph::TaskId(i));
    EXPECT_TRUE(plan.streams[0].entries[i].waits.empty());
    EXPECT_EQ(plan.reasons[plan.streams[0].entries[i].reason],
              (plan::Reason{.table = &kProgramReasons, .code = kProgramOrder}));
  }
}

TEST(ProgramPolicy, DepthHoldsAGatherBackUntilALayerBeforeItIsReached) {
  const auto graph = testing::training_step(3);
  const std::string backward = " r2 loss di2 i2 dw2 s2 d2 di1 i1 dw1 s1 d1 di0 i0 dw0 s0 d0 u0 u1 u2";
  const auto order = [&](const char* policy) { return testing::order_of(*make_policy(policy), *graph); };

  const plan::Order one = order("program:depth=1");
  EXPECT_EQ(testing::sequence_of(*graph, one), "g0 f0 g1 r0 f1 g2 r1 f2" + backward);
  EXPECT_EQ(testing::reason_of(*graph, one, "g2"), (plan::Reason{.table = &ProgramPolicy::kReasons, .numbers = {1}}));
  EXPECT_EQ(testing::reason_of(*graph, one, "g0"), (plan::Reason{.table = &kProgramReasons, .code = kInPlace}));
  const plan::Plan plan = plan::make_plan(graph, one, "program");
  EXPECT_EQ(testing::waits_of(plan, "g0"), Strings{"compute0:u0'"});  // of the step before
  EXPECT_EQ(testing::waits_of(plan, "g1").front(), "compute0:f0");
  EXPECT_EQ(testing::waits_of(plan, "g2").front(), "compute0:f1");
  EXPECT_TRUE(plan::check_plan(plan).empty());

  // Two layers ahead of g1 nothing has run: it comes first, and doesn't change places with g2.
  EXPECT_EQ(testing::sequence_of(*graph, order("program:depth=2")), "g0 g1 f0 g2 r0 f1 r1 f2" + backward);
  // A layer that begins with its gather: after the last computation before it.
  EXPECT_EQ(testing::sequence_of(*graph, order("program:depth=0")), "g0 f0 g1 r0 f1 g2 r1 f2" + backward);
  EXPECT_EQ(testing::sequence_of(*graph, order("program")), "g0 f0 r0 g1 f1 r1 g2 f2" + backward);
  EXPECT_TRUE(order("program").added_edges.empty());
}

}  // namespace
}  // namespace weft::policy
