// A step that a test moves by hand: its report for a watchdog, and collectives, which start when their waits hold and
// advance at every poll. Batches have every entry once and in order, waits before their first entries alone, and
// signals after their last entries alone.
#include "runtime/execute/cpu/cpu_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "runtime/execute/non_finite.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

// A loaded plan of one rank whose streams a test moves by hand: a, a sum of its result, and b, which reads the sum.
//   compute0   a . . . b
//   data         sum
struct LoadedToy {
  /// The communicators, of channel data, outlive it.
  explicit LoadedToy(const CommunicatorSet& communicators)
      : loaded(std::make_shared<const plan::Plan>(policy::compile_plan(graph, *policy::make_policy("program"))),
               communicators, 1) {}

  /// As if compute0 had ended this many entries.
  void computed(std::int64_t entries) {
    loaded.streams[0].finished = entries;
    loaded.streams[0].completed = entries;
  }

  static std::shared_ptr<const graph::Graph> toy() {
    testing::ToyGraph toy;
    const graph::View x = toy.tensor("x", 1, graph::Role::parameter), y = toy.tensor("y", 1, graph::Role::parameter);
    toy.compute("a", {graph::read(x), graph::read(x), graph::write(x)});
    toy.add("sum", graph::AllReduce{graph::Channel::data, 1, 1},
            {graph::read_write(x), graph::write(toy.tensor("w", 0))});
    toy.compute("b", {graph::read(x), graph::read(x), graph::write(y)});
    return toy.build();
  }

  const std::shared_ptr<const graph::Graph> graph = toy();
  const State state{std::array{graph}};
  CpuPlan loaded;
};

/// Calls body(toy, memory) with a toy that is ready to run.
template <class Body>
void with_toy(const Body& body) {
  testing::on_ranks(1, [&](comm::World& world) {
    const std::vector<graph::Channel> channels = {graph::Channel::data};
    const CommunicatorSet communicators(world, channels);
    LoadedToy toy(communicators);
    const Buffer arena(toy.loaded.plan->scratch_bytes);
    const PlanMemory memory{&toy.state, toy.state.begin(), arena.data()};
    toy.loaded.prepare(memory, nullptr);
    body(toy, memory);
  });
}

TEST(CollectiveProgress, ACollectiveWaitsForItsInputs) {
  with_toy([](LoadedToy& toy, const PlanMemory&) {
    const TickClock clock;
    CollectiveProgress progress(clock, nullptr);
    toy.loaded.traces.begin(0, clock);
    progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].next, 0U);
    EXPECT_FALSE(toy.loaded.streams[1].in_flight);
    toy.computed(1);
    while (toy.loaded.streams[1].completed == 0) progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].finished, 1);
    EXPECT_EQ(toy.loaded.streams[1].next, 1U);
    EXPECT_GT(toy.loaded.traces.times(1)[0].end, 0);
    progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].finished, 1);
  });
}

TEST(CollectiveProgress, IsDueAWhileAfterTheLastLook) {
  with_toy([](LoadedToy& toy, const PlanMemory&) {
    const TickClock clock;
    CollectiveProgress progress(clock, nullptr);
    progress.poll(toy.loaded);
    const std::int64_t now = clock.now();
    EXPECT_FALSE(progress.due(now - clock.ticks_in(1'000'000)));
    EXPECT_TRUE(progress.due(now + clock.ticks_in(200'000)));
  });
}

TEST(CollectiveProgress, ResultsAreLookedAt) {
  with_toy([](LoadedToy& toy, const PlanMemory& memory) {
    const TickClock clock;
    FiniteCheck check(memory);
    CollectiveProgress progress(clock, &check);
    toy.state.get<float>("x")[0] = std::numeric_limits<float>::infinity();
    toy.computed(1);
    while (toy.loaded.streams[1].completed == 0) progress.poll(toy.loaded);
    ASSERT_TRUE(check.first().has_value());
    EXPECT_EQ(check.first()->task, toy.graph->find_task("sum"));
    check.begin_step();
    EXPECT_FALSE(check.first().has_value());
  });
}

TEST(CpuPlan, TellsWhereStreamsStandAndWhatTheyWaitFor) {
  with_toy([](LoadedToy& toy, const PlanMemory&) {
    EXPECT_EQ(toy.loaded.finished_entries(), 0U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: 0 of 2 tasks done, at task 'a', running"
              "\n  stream data: 0 of 1 tasks done, at collective 'sum', waits for 'a' on compute0");
    toy.computed(1);
    EXPECT_EQ(toy.loaded.finished_entries(), 1U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: 1 of 2 tasks done, at task 'b', waits for 'sum' on data"
              "\n  stream data: 0 of 1 tasks done, at collective 'sum', posted: waits for its peers");
    toy.loaded.streams[1].finished = toy.loaded.streams[1].completed = 1;
    toy.computed(2);
    EXPECT_EQ(toy.loaded.finished_entries(), 3U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: done, 2 of 2 tasks\n  stream data: done, 1 of 1 tasks");
  });
}

std::string batches_text(const plan::Plan& plan, std::size_t stream) {
  const StreamBatches batches(plan, plan::StreamId(stream));
  std::string text;
  for (const StreamBatch& batch : batches.batches()) {
    for (const StreamWait& wait : batches.waits(batch)) {
      text += "(" + std::to_string(wait.stream) + ":" + std::to_string(wait.entries) + ")";
    }
    for (std::uint32_t e = batch.begin; e < batch.end; ++e) {
      text += plan.graph->task(plan.streams[stream].entries[e].task).name;
    }
    text += batch.signals ? "! " : " ";
  }
  return text;
}

TEST(StreamBatches, AreCutBeforeWaitsAndBehindSignals) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 1), y = toy.tensor("y", 1), z = toy.tensor("z", 1);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.compute("c", {graph::read(x)});
  toy.compute("d", {graph::read(x), graph::write(z)});
  toy.compute("e", {graph::read(z)});
  toy.compute("f", {graph::read(z)});
  const auto graph = toy.build();
  const plan::Plan plan = testing::plan_in(graph, "a b c@1 d@1 e f");
  EXPECT_NE(batches_text(plan, 0).find("a! b (1:2)ef!"), std::string::npos) << batches_text(plan, 0);
  EXPECT_EQ(batches_text(plan, 1).find("(0:1)c"), 0U) << batches_text(plan, 1);
}

TEST(StreamBatches, AnEmptyStreamHasNone) {
  testing::ToyGraph toy;
  toy.compute("a", {graph::write(toy.tensor("x", 1))});
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(*graph, 2, {{"a", "compute0"}}), "by hand");
  EXPECT_TRUE(StreamBatches(plan, plan::StreamId(std::size_t{1})).batches().empty());
  EXPECT_EQ(batches_text(plan, 0), "a! ");
}

TEST(StreamBatches, HoldAllThatThePlanSays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto graph = testing::executable_graph(seed, 2);
    const testing::RandomPolicy policy(seed, 3);
    const plan::Plan plan = plan::make_plan(graph, testing::order_of(policy, *graph, {.compute_streams = 3}), "random");
    for (std::size_t s = 0; s < 3; ++s) {
      const auto& entries = plan.streams[s].entries;
      const StreamBatches batches(plan, plan::StreamId(s));
      std::uint32_t next = 0;
      for (const StreamBatch& batch : batches.batches()) {
        ASSERT_EQ(batch.begin, next);
        ASSERT_LT(batch.begin, batch.end);
        next = batch.end;
        const auto waits = batches.waits(batch);
        ASSERT_EQ(waits.size(), entries[batch.begin].waits.size());
        for (std::size_t i = 0; i < waits.size(); ++i) {
          const plan::Wait& wait = entries[batch.begin].waits[i];
          const auto length = static_cast<std::int64_t>(plan.streams[wait.stream.index()].entries.size());
          EXPECT_EQ(waits[i].stream, wait.stream.value);
          EXPECT_EQ(waits[i].entries, wait.entry + 1 - (wait.distance == 1 ? length : 0));
        }
        for (std::uint32_t e = batch.begin; e < batch.end; ++e) {
          ASSERT_TRUE(e == batch.begin || entries[e].waits.empty());
          ASSERT_TRUE(e + 1 == batch.end || !entries[e].signals);
        }
        EXPECT_EQ(batch.signals, entries[batch.end - 1].signals || batch.end == entries.size());
      }
      ASSERT_EQ(next, entries.size());
    }
  }
}

}  // namespace
}  // namespace weft::execute
