#include "runtime/policy/builtin/message_rewrites.h"

#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/portfolio.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::policy {
namespace {

/// Collectives on the data axis take `latency` and a time for each element, other tasks 1000.
class Latency final : public cost::CostModel {
 public:
  Latency(double latency, double element) : latency_(latency), element_(element) {}
  cost::TaskCosts costs(const graph::Graph& graph) const override {
    cost::TaskCosts costs;
    for (const graph::Task& task : graph.tasks()) {
      const graph::Channel* channel = graph::channel_of(task.operation);
      const graph::Access* moved = graph::payload_of(task);
      const bool data = channel != nullptr && *channel == graph::Channel::data && moved != nullptr;
      costs.ns.push_back(data ? latency_ + element_ * static_cast<double>(moved->view.elements()) : 1000);
      costs.cpu_ns.push_back(0);
    }
    return costs;
  }
  std::string source() const override { return "a test"; }

 private:
  double latency_, element_;
};

PolicyOptions options_of(double latency, double element, std::int64_t memory_limit = 0) {
  return {.memory_limit = memory_limit, .cost_model = std::make_shared<const Latency>(latency, element)};
}

/// Six gradients that are made, summed and used one after the other.
std::shared_ptr<const graph::Graph> gradients() {
  testing::ReductionToy toy;
  std::vector<graph::View> views;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    views.push_back(toy.tensor("g" + n, 16, graph::Role::gradient));
    toy.compute("make" + n, {graph::write(views.back())});
    toy.reduce("sum" + n, views.back());
  }
  const graph::View out = toy.tensor("out", 16, graph::Role::parameter);
  for (std::size_t i = 0; i < views.size(); ++i)
    toy.compute("use" + std::to_string(i), {graph::read(views[i]), graph::read_write(out)});
  return toy.build();
}

TEST(MessageRewrites, JoinSumsWhoseLatencyIsLong) {
  const auto graph = gradients();
  const auto found = message_rewrites(*graph, options_of(50'000, 1));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<plan::BucketAllReduces>(found[0]));
  EXPECT_LT(plan::rewrite(graph, found)->tasks().size(), graph->tasks().size());
}

// The long sum is ready first. If it runs first, the short one waits, and with it a chain of computations; if it runs
// last, its end is late.
TEST(MessageRewrites, SplitALongSumThatOthersWaitFor) {
  constexpr std::int64_t kElements = std::int64_t{32} << 20;
  testing::ReductionToy toy;
  const graph::View far = toy.tensor("far", kElements), near = toy.tensor("near", 8), end = toy.tensor("end", 8);
  const graph::View out = toy.tensor("out", 8, graph::Role::parameter);
  const graph::View begin = toy.tensor("begin", 8);
  toy.compute("make far", {graph::write(far), graph::write(begin)});
  toy.reduce("sum far", far);
  toy.compute("make near", {graph::read(begin), graph::write(near)});
  for (int i = 0; i < 20; ++i) toy.compute("near " + std::to_string(i), {graph::read_write(near)});
  toy.reduce("sum near", near);
  toy.compute("make end", {graph::read(near), graph::write(end)});
  for (int i = 0; i < 15; ++i) toy.compute("end " + std::to_string(i), {graph::read_write(end)});
  toy.compute("last", {graph::read(far), graph::read(end), graph::read_write(out)});
  const auto found = message_rewrites(*toy.build(), options_of(0, 1e-3));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<plan::SplitAllReduces>(found[0]));
}

TEST(MessageRewrites, LeaveAGraphAloneThatGainsNothing) {
  EXPECT_TRUE(message_rewrites(*gradients(), options_of(0, 1)).empty());
  testing::ToyGraph toy;
  toy.compute("a", {graph::read_write(toy.tensor("out", 8, graph::Role::parameter))});
  EXPECT_TRUE(message_rewrites(*toy.build(), options_of(50'000, 1)).empty());
}

TEST(MessageRewrites, KeepTheMemoryLimit) {
  const auto graph = gradients();
  EXPECT_TRUE(message_rewrites(*graph, options_of(50'000, 1, 1)).empty());
  EXPECT_FALSE(message_rewrites(*graph, options_of(50'000, 1, std::int64_t{1} << 30)).empty());
}

TEST(MessageRewrites, LeaveStagesOfPipelinesAlone) {
  const auto found = [](bool sends) {
    testing::ReductionToy toy;
    const graph::View a = toy.tensor("a", 16), b = toy.tensor("b", 16);
    toy.compute("make a", {graph::write(a)});
    toy.compute("make b", {graph::write(b)});
    toy.reduce("sum a", a);
    toy.reduce("sum b", b);
    if (sends) toy.add({"sent", graph::Send{graph::Channel::send_next, 0, 16}, {graph::read(a)}});
    return message_rewrites(*toy.build(), options_of(50'000, 1)).size();
  };
  EXPECT_EQ(found(false), 1U);
  EXPECT_EQ(found(true), 0U);
}

TEST(MessageRewrites, LeaveGraphsOfManyTasksAlone) {
  const auto taken = [](int tasks) {
    testing::ReductionToy toy;
    const graph::View a = toy.tensor("a", 16);
    toy.compute("make", {graph::write(a)});
    toy.reduce("sum", a);
    for (int i = 2; i < tasks; ++i) toy.compute("use" + std::to_string(i), {graph::read_write(a)});
    return takes_message_rewrites(*toy.build());
  };
  EXPECT_TRUE(taken(30'000));
  EXPECT_FALSE(taken(30'001));
}

TEST(MessageRewrites, ArePortfoliosUnlessItIsToldNotTo) {
  const auto graph = gradients();
  const PolicyOptions options = options_of(50'000, 1);
  for (const char* policy : {"portfolio", "exact:nodes=10", "exact:messages=on"})
    EXPECT_EQ(make_policy(policy)->rewrites(*graph, options).size(), 1U) << policy;
  for (const char* policy : {"portfolio:messages=off", "portfolio:budget=0", "exact:messages=off", "anneal"})
    EXPECT_TRUE(make_policy(policy)->rewrites(*graph, options).empty()) << policy;
}

}  // namespace
}  // namespace weft::policy
