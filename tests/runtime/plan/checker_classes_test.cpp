#include "runtime/plan/checker_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

using testing::order_of;
using testing::order_of_units;
using testing::pipeline_plans;
using testing::PipelineToy;
using testing::pointers_to;
using testing::ToyGraph;
using Kind = Violation::Kind;
using Found = std::vector<std::pair<Kind, std::string>>;

Found found_in(const std::vector<Plan>& plans, std::size_t limit = 20) {
  Found found;
  for (const Violation& violation : check(pointers_to(plans), limit))
    found.emplace_back(violation.kind, violation.message);
  return found;
}

/// Makes the plan again of an order in which two tasks have changed places.
Plan exchanged(const Plan& plan, const std::string& a, const std::string& b) {
  Order order;
  for (const StreamPlan& stream : plan.streams) order.streams.push_back(stream.stream);
  order.reasons = {Reason{}};
  for (graph::TaskId task : plan.sequence) {
    const std::string& name = plan.graph->task(task).name;
    if (name == a || name == b) task = plan.graph->find_task(name == a ? b : a);
    order.sequence.push_back({task, plan.position[task.index()].stream, 0});
  }
  return make_plan(plan.graph, order, "mine");
}

TEST(CheckerOfClasses, ProgramOrderIsSafeForEveryShape) {
  for (const std::int64_t stages : {1, 2, 3, 5}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const graph::ChunkPlacement placement : {graph::ChunkPlacement::loop, graph::ChunkPlacement::v}) {
        const PipelineToy toy({.stages = stages,
                               .micro_batches = 3,
                               .chunks = {chunks, placement},
                               .pieces = 2,
                               .world = true,
                               .embedding = true});
        const std::vector<Plan> plans = pipeline_plans(toy, testing::units_in_program_order);
        EXPECT_EQ(found_in(plans), Found{}) << stages << " stages, " << chunks << " chunks, " << to_string(placement);
      }
    }
  }
}

// Stage 0 sends mb1 before it receives the gradient of mb0; stage 1 sends that gradient before it receives mb1. With a
// queue for each channel this is 1F1B.
TEST(CheckerOfClasses, ADeadlockThatOnlyOneQueueHas) {
  const PipelineToy toy({.stages = 2, .micro_batches = 3});
  const std::vector<Plan> plans = pipeline_plans(toy, testing::units_of_1f1b);
  EXPECT_EQ(found_in(plans),
            (Found{{Kind::one_queue,
                    "deadlock where a rank runs one collective or message at a time: stage 0: mb1.S0.fwd.send "
                    "(send_next) waits for stage 1: mb1.S1.fwd.receive (receive_previous), which comes after stage 1: "
                    "mb0.S1.bwd.send (send_previous), which waits for stage 0: mb0.S0.bwd.receive (receive_next), "
                    "which comes after stage 0: mb1.S0.fwd.send (send_next)"}}));
}

// Stage 0 makes mb1 after the gradient of mb0, for which stage 1 wants mb1.
TEST(CheckerOfClasses, ADeadlockIsNamedByItsCycle) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const std::vector<Plan> plans = pipeline_plans(toy, [](auto& t, std::int64_t rank) {
    return rank == 0 ? units_in_program_order(t, rank) : units_of_gpipe(t, rank);
  });
  EXPECT_EQ(found_in(plans),
            (Found{{Kind::deadlock,
                    "deadlock: stage 0: mb0.S0.bwd.input.p0 (compute0) waits for stage 0: mb0.S0.bwd.receive "
                    "(receive_next), which waits for stage 1: mb0.S1.bwd.send (send_previous), which waits for stage "
                    "1: mb0.S1.bwd.input.p0 (compute0), which comes after mb1.S1.fwd.p0, which waits for stage 1: "
                    "mb1.S1.fwd.receive (receive_previous), which waits for stage 0: mb1.S0.fwd.send (send_next), "
                    "which waits for stage 0: mb1.S0.fwd.p0 (compute0), which comes after mb0.S0.bwd.input.p0"}}));
}

TEST(CheckerOfClasses, SwappedSendsMeetOtherReceives) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  std::vector<Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  // Only sends move: mb0's waits for mb1's work anyhow.
  plans[0] = exchanged(plans[0], "mb0.S0.fwd.send", "mb1.S0.fwd.p0");
  EXPECT_EQ(found_in(plans), Found{});
  plans[0] = exchanged(plans[0], "mb0.S0.fwd.send", "mb1.S0.fwd.send");
  EXPECT_EQ(found_in(plans), (Found{{Kind::message,
                                     "stage 0: mb1.S0.fwd.send (message 2, 16 f32) on send_next meets stage 1: "
                                     "mb0.S1.fwd.receive (message 1, 16 f32) on receive_previous (position 0)"}}));
}

TEST(CheckerOfClasses, AMovedReceiveMeetsAnotherSend) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  std::vector<Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  Order order = order_of_units(*plans[0].graph, units_of_gpipe(toy, 0));
  const auto place = [&](const std::string& name) {
    return std::ranges::find(order.sequence, plans[0].graph->find_task(name), &Placement::task);
  };
  // mb1's receive moves before mb0's.
  std::rotate(place("mb0.S0.bwd.receive"), place("mb1.S0.bwd.receive"), place("mb1.S0.bwd.receive") + 1);
  plans[0] = make_plan(plans[0].graph, order, "mine");
  EXPECT_EQ(found_in(plans), (Found{{Kind::message,
                                     "stage 1: mb0.S1.bwd.send (message 1, 16 f32) on send_previous meets stage 0: "
                                     "mb1.S0.bwd.receive (message 2, 16 f32) on receive_next (position 0)"}}));
}

TEST(CheckerOfClasses, AMissingSendAndReceiveAreNamed) {
  const PipelineToy three({.stages = 2, .micro_batches = 3}), two({.stages = 2, .micro_batches = 2});
  std::vector<Plan> longer = pipeline_plans(three, testing::units_in_program_order),
                    shorter = pipeline_plans(two, testing::units_in_program_order);
  std::vector<Plan> plans = {shorter[0], longer[1]};
  const Found found = {{Kind::message,
                        "stage 1: mb2.S1.fwd.receive (message 3, 16 f32) (receive_previous) has no send: stage 0 sends "
                        "2 messages on send_next"},
                       {Kind::message,
                        "stage 1: mb2.S1.bwd.send (message 3, 16 f32) (send_previous) has no receive: stage 0 receives "
                        "2 messages on receive_next"}};
  EXPECT_EQ(found_in(plans), found);
  EXPECT_EQ(found_in(plans, 1), Found{found[0]});
}

TEST(CheckerOfClasses, AnotherCountIsNamed) {
  const PipelineToy small({.stages = 2, .micro_batches = 1}), large({.stages = 2, .micro_batches = 1, .count = 32});
  const std::vector<Plan> plans = {pipeline_plans(small, testing::units_in_program_order)[0],
                                   pipeline_plans(large, testing::units_in_program_order)[1]};
  EXPECT_EQ(found_in(plans, 1), (Found{{Kind::message,
                                        "stage 0: mb0.S0.fwd.send (message 1, 16 f32) on send_next meets stage 1: "
                                        "mb0.S1.fwd.receive (message 1, 32 f32) on receive_previous (position 0)"}}));
}

/// Two collectives in the given order, on channels of the given names.
Plan collectives_plan(const std::vector<std::string>& names, graph::Channel channel) {
  ToyGraph toy;
  std::vector<std::pair<std::string, std::string>> order;
  for (const std::string& name : names) {
    const graph::View x = toy.tensor("x of " + name, 8);
    toy.compute("make " + name, {graph::write(x)});
    toy.collective(name, channel, {graph::read_write(x)}, 8);
    order.insert(order.end(), {{"make " + name, "compute0"}, {name, std::string(graph::to_string(channel))}});
  }
  const auto graph = toy.build();
  return make_plan(graph, order_of(*graph, 1, order), "mine");
}

TEST(CheckerOfClasses, ExchangedCollectivesOfTheWorldAreNamed) {
  const auto world = graph::Channel::world, pipe = graph::Channel::pipe;
  EXPECT_EQ(found_in({collectives_plan({"a", "b"}, world), collectives_plan({"a", "b"}, world)}), Found{});
  EXPECT_EQ(found_in({collectives_plan({"a", "b"}, world), collectives_plan({"b", "a"}, world)}),
            (Found{{Kind::collective_order,
                    "stage 1 issues b (all_reduce of 8 f32 on world) where stage 0 issues a (all_reduce of 8 f32 on "
                    "world) (position 0)"}}));
  EXPECT_EQ(found_in({collectives_plan({"a"}, pipe), collectives_plan({"a", "b"}, pipe)}),
            (Found{{Kind::collective_order,
                    "stage 1 issues b (all_reduce of 8 f32 on pipe) where stage 0 issues nothing more (position 1)"}}));
}

TEST(CheckerOfClasses, OnlyTheEndsReduceTheEmbedding) {
  const auto embedding = graph::Channel::embedding;
  const Plan with = collectives_plan({"a"}, embedding), without = collectives_plan({}, embedding);
  EXPECT_EQ(found_in({with, without, with}), Found{});
  EXPECT_EQ(found_in({with, with, with}), (Found{{Kind::collective_order,
                                                  "stage 1: a is a collective on embedding, of which stage 1 isn't a "
                                                  "member"}}));
  EXPECT_EQ(found_in({with, without, without}),
            (Found{{Kind::collective_order,
                    "stage 2 issues nothing more where stage 0 issues a (all_reduce of 8 f32 on embedding) (position "
                    "0)"}}));
}

// Collectives of one stage need no other stage.
TEST(CheckerOfClasses, CollectivesOfAStageMayDiffer) {
  const auto data = graph::Channel::data;
  EXPECT_EQ(found_in({collectives_plan({"a"}, data), collectives_plan({"b", "c"}, data)}), Found{});
}

TEST(CheckerOfClasses, OneClassIsACaseOfSeveral) {
  EXPECT_EQ(found_in({}), Found{});
  EXPECT_EQ(found_in({collectives_plan({"a", "b"}, graph::Channel::world)}), Found{});
  const PipelineToy toy({.stages = 2, .micro_batches = 1});
  const Plan first = pipeline_plans(toy, testing::units_of_gpipe)[0];
  EXPECT_EQ(found_in({first}), Found{}) << "a stage by itself, whose neighbours' graphs aren't there";
}

// Each class is checked by itself, too, and its violations say which it is.
TEST(CheckerOfClasses, ViolationsOfAClassNameIt) {
  const auto data = graph::Channel::data;
  const Plan safe = collectives_plan({"a"}, data);
  Plan no_wait = safe, overlap = collectives_plan({"a", "b"}, data), broken = safe, stuck = safe;
  no_wait.streams[1].entries[0].waits.clear();
  const Found missing = {{Kind::missing_wait,
                          "stage 1: wait missing: a (data) reads x of a, written by make a (compute0), but neither "
                          "data's order nor a wait makes make a complete first"}};
  EXPECT_EQ(found_in({safe, no_wait}), missing);
  EXPECT_EQ(found_in({safe, no_wait, no_wait}, 1), missing);

  overlap.offset = {0, 0};
  ASSERT_EQ(found_in({safe, overlap}).size(), 1U);
  EXPECT_EQ(found_in({safe, overlap})[0].first, Kind::memory_overlap);
  EXPECT_EQ(found_in({safe, overlap})[0].second.find("stage 1: memory overlap: tensors x of a "), 0U);

  broken.position.clear();
  const Found sizes = {{Kind::structure, "stage 0: plan.position has 0 items; expected 2"},
                       {Kind::structure, "stage 2: plan.position has 0 items; expected 2"}};
  EXPECT_EQ(found_in({broken, safe, broken}), sizes);
  EXPECT_EQ(found_in({broken, safe, broken}, 1), Found{sizes[0]});

  stuck.streams[0].entries[0].waits = {{StreamId(std::size_t{1}), 0, 0}};
  stuck.streams[1].entries[0].signals = true;
  EXPECT_EQ(found_in({safe, stuck}),
            (Found{{Kind::deadlock,
                    "deadlock: stage 1: make a (compute0) waits for stage 1: a (data), which waits for stage 1: make a "
                    "(compute0)"}}));
}

// A total order that one class can't follow is that class's own fault.
TEST(CheckerOfClasses, ATotalOrderThatTheWaitsOfAClassContradict) {
  ToyGraph toy;
  for (const char* name : {"a", "b"}) {
    const graph::View x = toy.tensor(std::string("x of ") + name, 8, graph::Role::parameter);
    toy.collective(name, *name == 'a' ? graph::Channel::x : graph::Channel::data, {graph::read_write(x)}, 8);
  }
  const auto graph = toy.build();
  Plan plan = testing::plan_in(graph, "a b");
  plan.streams[1].entries[0].waits = {{StreamId(std::size_t{2}), 0, 0}};
  plan.streams[2].entries[0].signals = true;
  EXPECT_EQ(found_in({collectives_plan({}, graph::Channel::data), plan}),
            (Found{{Kind::collective_order,
                    "the total order of collectives can't be issued: stage 1: a (x) waits for stage 1: b (data), which "
                    "comes after stage 1: a (x)"}}));
}

}  // namespace
}  // namespace weft::plan
