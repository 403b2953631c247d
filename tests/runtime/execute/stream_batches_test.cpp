// Batches: every entry once and in order, waits before first entries only, signals after last entries only.
#include "runtime/execute/stream_batches.h"

#include <gtest/gtest.h>

#include "runtime/policy/policy.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

std::string text_of(const plan::Plan& plan, std::size_t stream) {
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
  plan::Order order = testing::order_of(*graph, 2,
                                        {{"a", "compute0"},
                                         {"b", "compute0"},
                                         {"c", "compute1"},
                                         {"d", "compute1"},
                                         {"e", "compute0"},
                                         {"f", "compute0"}});
  const plan::Plan plan = plan::make_plan(graph, order, "by hand");
  EXPECT_NE(text_of(plan, 0).find("a! b (1:2)ef!"), std::string::npos) << text_of(plan, 0);
  EXPECT_EQ(text_of(plan, 1).find("(0:1)c"), 0U) << text_of(plan, 1);
}

TEST(StreamBatches, AnEmptyStreamHasNone) {
  testing::ToyGraph toy;
  toy.compute("a", {graph::write(toy.tensor("x", 1))});
  const auto graph = toy.build();
  const plan::Plan plan = plan::make_plan(graph, testing::order_of(*graph, 2, {{"a", "compute0"}}), "by hand");
  EXPECT_TRUE(StreamBatches(plan, plan::StreamId(std::size_t{1})).batches().empty());
  EXPECT_EQ(text_of(plan, 0), "a! ");
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
