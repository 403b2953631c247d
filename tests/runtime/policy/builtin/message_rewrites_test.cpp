#include "runtime/policy/builtin/message_rewrites.h"

#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/portfolio.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::policy {
namespace {

/// Collectives on the data axis take `latency` and a time for each element, other tasks 1000.
PolicyOptions options_of(double latency, double element, std::int64_t memory_limit = 0) {
  const auto price = [=](const graph::Task& task) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    const graph::Access* moved = graph::payload_of(task);
    const bool data = channel != nullptr && *channel == graph::Channel::data && moved != nullptr;
    return testing::TaskPrice{data ? latency + element * static_cast<double>(moved->view.elements()) : 1000};
  };
  return {.memory_limit = memory_limit, .cost_model = testing::priced_tasks(price)};
}

std::shared_ptr<const graph::Graph> six_gradients() {
  return testing::gradients({16, 16, 16, 16, 16, 16});
}

TEST(MessageRewrites, JoinSumsWhoseLatencyIsLong) {
  const auto found = message_rewrites(*six_gradients(), options_of(50'000, 1));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<plan::BucketAllReduces>(found[0]));
  EXPECT_LT(plan::rewrite(six_gradients(), found)->tasks().size(), six_gradients()->tasks().size());
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
  EXPECT_TRUE(message_rewrites(*six_gradients(), options_of(0, 1)).empty());
  testing::ToyGraph toy;
  toy.compute("a", {graph::read_write(toy.tensor("out", 8, graph::Role::parameter))});
  EXPECT_TRUE(message_rewrites(*toy.build(), options_of(50'000, 1)).empty());
}

TEST(MessageRewrites, KeepTheMemoryLimit) {
  EXPECT_TRUE(message_rewrites(*six_gradients(), options_of(50'000, 1, 1)).empty());
  EXPECT_FALSE(message_rewrites(*six_gradients(), options_of(50'000, 1, std::int64_t{1} << 30)).empty());
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
  const PolicyOptions options = options_of(50'000, 1);
  for (const char* policy : {"portfolio", "exact:nodes=10", "exact:messages=on"})
    EXPECT_EQ(make_policy(policy)->rewrites(*six_gradients(), options).size(), 1U) << policy;
  for (const char* policy : {"portfolio:messages=off", "portfolio:budget=0", "exact:messages=off", "anneal"})
    EXPECT_TRUE(make_policy(policy)->rewrites(*six_gradients(), options).empty()) << policy;
}

}  // namespace
}  // namespace weft::policy
