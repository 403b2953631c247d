#include "runtime/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

using testing::order_of;
using testing::ToyGraph;
using testing::waits_of;
using Strings = std::vector<std::string>;

std::string refusal(const std::shared_ptr<const graph::Graph>& graph, const Order& order) {
  return testing::message_of<std::logic_error>([&] { make_plan(graph, order, "mine"); });
}

class Diamond : public ::testing::Test {
 protected:
  //  a ── x ──▶ c (data) ──▶ d        b reads only y
  Diamond() {
    ToyGraph toy;
    const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8, graph::Role::parameter);
    toy.compute("a", {graph::read_write(x)});
    toy.collective("c", graph::Channel::data, {graph::read_write(x)});
    toy.compute("b", {graph::read(y)});
    toy.compute("d", {graph::read(x)});
    graph_ = toy.build();
  }
  std::shared_ptr<const graph::Graph> graph_;
};

TEST_F(Diamond, HasEntriesWaitsAndSignals) {
  const Plan plan = testing::plan_in(graph_, "a c b d");
  ASSERT_EQ(plan.streams.size(), 2U);
  EXPECT_EQ(plan.streams[0].entries.size(), 3U);
  EXPECT_EQ(waits_of(plan, "a"), Strings{});  // the step before: d waited for c, and d precedes a in its stream
  EXPECT_EQ(waits_of(plan, "c"), Strings{"compute0:a"});
  EXPECT_EQ(waits_of(plan, "b"), Strings{});
  EXPECT_EQ(waits_of(plan, "d"), Strings{"data:c"});
  EXPECT_TRUE(testing::entry_of(plan, "a").signals);
  EXPECT_TRUE(testing::entry_of(plan, "c").signals);
  EXPECT_FALSE(testing::entry_of(plan, "b").signals);
  EXPECT_FALSE(testing::entry_of(plan, "d").signals);
  EXPECT_EQ(plan.position[graph_->find_task("d").index()].entry, 2U);
  EXPECT_EQ(plan.collectives, std::vector<graph::TaskId>{graph_->find_task("c")});
  EXPECT_EQ(plan.policy, "mine");
}

TEST_F(Diamond, RefusesOrdersThatAreNone) {
  const auto on_streams = [&](const char* a, const char* c) {
    return order_of(*graph_, 1, {{"a", a}, {"c", c}, {"b", "compute0"}, {"d", "compute0"}});
  };
  for (const auto& [order, words] : std::vector<std::pair<Order, const char*>>{
           {testing::order_in(*graph_, "a b d c"), "'d' comes before 'c'"},
           {testing::order_in(*graph_, "a c b"), "'d' is missing"},
           {testing::order_in(*graph_, "a c b b"), "'b' occurs twice"},
           {on_streams("compute0", "compute0"), "'c' is on stream compute0, but belongs on the stream of channel data"},
           {on_streams("data", "data"), "'a' is on stream data, but belongs on a compute stream"},
           {on_streams("nowhere", "data"), "'a' is on stream 2 of 2"}}) {
    EXPECT_TRUE(testing::has_parts(refusal(graph_, order), {"policy 'mine': ", words}));
  }
}

TEST_F(Diamond, RefusesAddedEdgesAgainstTheSequence) {
  Order order = testing::order_in(*graph_, "a c b d");
  order.added_edges.push_back({graph_->find_task("d"), graph_->find_task("c"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  EXPECT_EQ(refusal(graph_, order), "policy 'mine': its edge from 'd' to 'c' goes against its sequence");
  order.added_edges[0].distance = 1;
  EXPECT_EQ(refusal(graph_, order), "");
  order.sequence[0].reason = 1;
  EXPECT_EQ(refusal(graph_, order), "policy 'mine': 'a' has reason 1 of 1");
}

TEST(Plan, AWaitBringsAlongWhatItsStreamKnew) {
  // c needs both a (compute0) and b (compute1, which itself waited for a): one wait is enough.
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8), z = toy.tensor("z", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::read(x), graph::write(y)});
  toy.collective("c", graph::Channel::data, {graph::read(x), graph::read(y), graph::read_write(z)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a b@1 c");
  EXPECT_EQ(waits_of(plan, "b"), Strings{"compute0:a"});
  EXPECT_EQ(waits_of(plan, "c"), Strings{"compute1:b"});
}

TEST(Plan, OnlyTheLatestOfAStreamsEntriesIsWaitedForAndNeverTwice) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8), z = toy.tensor("z", 8, graph::Role::parameter);
  toy.compute("a1", {graph::write(x)});
  toy.compute("a2", {graph::write(y)});
  toy.compute("b1", {graph::read(x), graph::read(y)});
  toy.compute("b2", {graph::read(x), graph::read_write(z)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "a1 a2 b1@1 b2@1");
  EXPECT_EQ(waits_of(plan, "b1"), Strings{"compute0:a2"});
  EXPECT_EQ(waits_of(plan, "b2"), Strings{});
  EXPECT_FALSE(testing::entry_of(plan, "a1").signals);
}

TEST(Plan, StateIsWaitedForAcrossTheBoundaryOfSteps) {
  ToyGraph toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), g = toy.tensor("g", 8, graph::Role::parameter);
  toy.collective("gather", graph::Channel::z_gather, {graph::read(w), graph::write(g)});
  toy.compute("use", {graph::read(g)});
  toy.compute("update", {graph::read_write(w)});
  const auto graph = toy.build();
  const Plan plan = testing::plan_in(graph, "gather use update");
  EXPECT_EQ(waits_of(plan, "gather"), Strings{"compute0:update'"});
  EXPECT_EQ(waits_of(plan, "use"), Strings{"z_gather:gather"});
  EXPECT_EQ(waits_of(plan, "update"), Strings{});
}

TEST(Plan, IssuedBeforeIsFreeOnOneStreamAndAWaitBetweenTwo) {
  ToyGraph toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), v = toy.tensor("v", 8, graph::Role::parameter);
  toy.collective("a", graph::Channel::data, {graph::read(w)});
  toy.collective("b", graph::Channel::data, {graph::read(v)});
  toy.collective("c", graph::Channel::x, {graph::read(v)});
  const auto graph = toy.build();
  Order order = testing::order_in(*graph, "a b c");
  const auto issued = [&](const char* from, const char* to) {
    order.added_edges.push_back({graph->find_task(from), graph->find_task(to), graph::EdgeKind::issued_before,
                                 graph::EdgeReason::policy, 0, graph::TensorId()});
  };
  issued("a", "b");
  issued("b", "c");
  const Plan plan = make_plan(graph, order, "mine");
  EXPECT_EQ(waits_of(plan, "b"), Strings{});
  EXPECT_EQ(waits_of(plan, "c"), Strings{"data:b"});
}

TEST(Plan, FingerprintsTellOrdersApart) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8, graph::Role::parameter);
  toy.compute("a", {graph::read(x)});
  toy.compute("b", {graph::read(y)});
  toy.collective("c", graph::Channel::data, {graph::read(x)});
  toy.collective("d", graph::Channel::data, {graph::read(y)});
  const auto graph = toy.build();
  const Plan abcd = testing::plan_in(graph, "a b c d"), again = testing::plan_in(graph, "a b c d");
  const Plan bacd = testing::plan_in(graph, "b a c d"), abdc = testing::plan_in(graph, "a b d c");
  EXPECT_EQ(abcd.fingerprint, again.fingerprint);
  EXPECT_NE(abcd.fingerprint, bacd.fingerprint);
  EXPECT_EQ(abcd.collective_fingerprint, bacd.collective_fingerprint);
  EXPECT_NE(abcd.collective_fingerprint, abdc.collective_fingerprint);
}

// Ranks that would issue other collectives than rank 0, or in another order, find out before they hang.
TEST(Plan, FingerprintsOfCollectivesTellOrdersNumbersAndSizesApart) {
  const auto fingerprint = [](const std::vector<std::pair<std::string, std::int64_t>>& collectives) {
    ToyGraph toy;
    std::vector<std::pair<std::string, std::string>> order;
    for (const auto& [name, count] : collectives) {
      const graph::View tensor = toy.tensor("tensor " + name, 64, graph::Role::parameter);
      toy.collective(name, name == "x" ? graph::Channel::x : graph::Channel::data, {graph::read_write(tensor)}, count);
      order.emplace_back(name, name);
    }
    const auto graph = toy.build();
    return make_plan(graph, order_of(*graph, 1, order), "mine").collective_fingerprint;
  };
  const std::uint64_t both = fingerprint({{"x", 64}, {"data", 32}});
  EXPECT_EQ(both, fingerprint({{"x", 64}, {"data", 32}}));
  EXPECT_NE(both, fingerprint({{"data", 32}, {"x", 64}}));
  EXPECT_NE(both, fingerprint({{"x", 64}}));
  EXPECT_NE(both, fingerprint({{"x", 16}, {"data", 32}}));
}

/// Any graph, any streams, any topological order, any added edges: the checker finds nothing, each wait is needed, and
/// tensors never take more bytes than without sharing.
class RandomPlans : public ::testing::TestWithParam<int> {};

Plan random_plan(std::uint64_t seed) {
  testing::Draws draws(1000 + seed);
  const testing::RandomGraphOptions options{.tasks = 1 + draws.below(60),
                                            .tensors = 1 + draws.below(30),
                                            .channels = draws.below(4),
                                            .collective_percent = static_cast<int>(draws.between(10, 60))};
  const auto graph = testing::random_graph(seed, options);
  const testing::RandomPolicy policy(seed, static_cast<int>(draws.below(6)));
  const policy::PolicyOptions streams{static_cast<int>(draws.between(1, 3))};
  return make_plan(graph, testing::order_of(policy, *graph, streams), "random");
}

TEST_P(RandomPlans, AreSafe) {
  for (int i = 0; i < 40; ++i) {
    const Plan plan = random_plan(static_cast<std::uint64_t>(GetParam() * 40 + i));
    for (const Violation& violation : check_plan(plan)) ADD_FAILURE() << i << ": " << violation.message;
    EXPECT_LE(plan.scratch_bytes, plan.sum_of_tensor_bytes);
  }
}

TEST_P(RandomPlans, HaveNoWaitTooMany) {
  for (int i = 0; i < 10; ++i) {
    Plan plan = random_plan(static_cast<std::uint64_t>(GetParam() * 40 + i));
    for (StreamPlan& stream : plan.streams) {
      for (Entry& entry : stream.entries) {
        const std::vector<Wait> waits = entry.waits;
        for (std::size_t w = 0; w < waits.size(); ++w) {
          entry.waits = waits;
          entry.waits.erase(entry.waits.begin() + static_cast<std::ptrdiff_t>(w));
          const std::vector<Violation> found = check_plan(plan);
          EXPECT_TRUE(
              std::ranges::any_of(found, [](const Violation& v) { return v.kind == Violation::Kind::missing_wait; }))
              << plan.graph->task(entry.task).name << " does without a wait for "
              << plan.streams[waits[w].stream.index()].stream.name << " entry " << waits[w].entry;
        }
        entry.waits = waits;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, ::testing::Range(0, 10));

TEST(MemoryReport, StateInAllAndScratchAtItsPeak) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 100, graph::Role::parameter);
  const graph::View a = toy.tensor("a", 50, graph::Role::activation), b = toy.tensor("b", 70, graph::Role::activation);
  const graph::View c = toy.tensor("c", 60, graph::Role::activation), g = toy.tensor("g", 10, graph::Role::gradient);
  toy.compute("first", {graph::read(p), graph::write(a)});
  toy.compute("second", {graph::read(a), graph::write(b)});  // a and b live: 120
  toy.compute("third", {graph::read(b), graph::write(c)});   // b and c live: 130
  toy.compute("fourth", {graph::read(c), graph::write(g)});
  toy.compute("last", {graph::read(g), graph::read_write(p)});
  const auto graph = toy.build();
  const Plan plan = make_plan(graph, testing::order_of(*policy::make_policy("serial"), *graph), "serial");
  const MemoryReport report = memory_report(plan);
  EXPECT_EQ(report.of(graph::Role::parameter), 400);
  EXPECT_EQ(report.state, 400);
  EXPECT_EQ(report.of(graph::Role::activation), 4 * 130);
  EXPECT_EQ(report.of(graph::Role::gradient), 40);
  EXPECT_EQ(report.of(graph::Role::gathered), 0);
  EXPECT_EQ(report.arena, plan.scratch_bytes);
  EXPECT_EQ(report.total(), 400 + plan.scratch_bytes);
}

}  // namespace
}  // namespace weft::plan
