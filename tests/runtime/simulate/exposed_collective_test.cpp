// Causes that hold a collective back, on graphs small enough to simulate by hand; times in microseconds.
#include "runtime/simulate/exposed_collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "runtime/policy/builtin/fsdp.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "tests/runtime/links.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::found;
using testing::held_back;
using testing::kNoRewrites;
using testing::kUs;
using testing::remedies_of;
using testing::TimedStep;

// Two collectives share a link, so that each takes twice as long.
TEST(ExposedCollective, CollectivesThatShareALink) {
  TimedStep step({{"a", "compute0", 10, "", "pq"},
                  {"c", "x", 20, "p"},
                  {"e", "data", 20, "q"},
                  {"b", "compute0", 5, "p"},
                  {"d", "compute0", 5, "q"}});
  step.problem.simulation.link_of_channel = testing::one_link();
  ASSERT_EQ(step.report().step_ns(), 60 * kUs);
  const Explanation explanation = step.explained();
  const ExposedCollective& c = found(explanation, *step.graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::contention);
  EXPECT_EQ(to_string(c.cause), "contention");
  EXPECT_EQ(c.duration_ns, 40 * kUs);
  EXPECT_EQ(c.alone_ns, 20 * kUs);
  // Without it e takes 10 to 30, b goes meanwhile, d ends at 35. d could go no earlier.
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c").back(), "no_time: 25");
}

// Tensors that share memory delay a collective too, without a policy's choice.
TEST(ExposedCollective, WaitsForMemoryAreToldAsSuch) {
  const TimedStep step = held_back();
  Report report = step.report();
  plan::Plan plan = *report.first().plan;
  for (graph::Edge& edge : plan.added_edges) edge.reason = graph::EdgeReason::memory;
  report.classes.front().plan = std::make_shared<const plan::Plan>(std::move(plan));
  const Explanation explanation = explain(step.problem, report, kNoRewrites);
  EXPECT_EQ(found(explanation, *step.graph, "c").cause, ExposureCause::chosen);
  EXPECT_EQ(step.graph->task(found(explanation, *step.graph, "c").in_the_way).name, "d");
}

// The same edge because of memory: recognised by the kind of the reason, not by a word in a text or a policy's name.
TEST(ExposedCollective, ACollectiveThatWaitsForMemoryByThePolicysOwnWord) {
  TimedStep step = held_back();
  step.order.reasons.emplace_back();
  std::ranges::find(step.order.sequence, step.id("c"), &plan::Placement::task)->reason = 1;
  const auto explained = [&](plan::Reason reason) {
    step.order.reasons[1] = std::move(reason);
    return found(step.explained(), *step.graph, "c");
  };
  EXPECT_EQ(explained({.table = &policy::ListScheduler::kReasons, .code = policy::ListScheduler::kHeld}).cause,
            ExposureCause::memory_limit);
  EXPECT_EQ(to_string(ExposureCause::memory_limit), "memory limit");
  const plan::Selection selection{.order = "fsdp", .orders = 13};
  const ExposedCollective limited = explained({.table = &policy::FsdpPolicy::kReasons,
                                               .code = policy::FsdpPolicy::kLimiter,
                                               .numbers = {2},
                                               .selection = selection});
  EXPECT_EQ(limited.cause, ExposureCause::memory_limit);
  EXPECT_NE(limited.because.find("limiter: at most 2 layers are gathered and not passed yet"), std::string::npos)
      << limited.because;
  EXPECT_EQ(explained({.table = &policy::ListScheduler::kReasons,
                       .selection = plan::Selection{.order = "lhs:rules=memory+communication+critical"}})
                .cause,
            ExposureCause::chosen);
  EXPECT_EQ(explained({.text = "out of memory of how it was done before"}).cause, ExposureCause::chosen);
}

// x is small, prepares c's data, and could have run before d.
TEST(ExposedCollective, ALocalTaskThatMakesItsDataLate) {
  const TimedStep step({{"a", "compute0", 10, "", "p"},
                        {"d", "compute0", 30, "", "q"},
                        {"x", "compute0", 1, "p", "r"},
                        {"c", "data", 20, "r"},
                        {"b", "compute0", 5, "r"}});
  ASSERT_EQ(step.report().step_ns(), 66 * kUs);
  const Explanation explanation = step.explained();
  const ExposedCollective& c = found(explanation, *step.graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::local_task);
  EXPECT_EQ(step.graph->task(c.in_the_way).name, "x");
  // a 10, x 11, c 31, d 41, b 46
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c").front(), "local_task: 20");
}

// The policy makes d wait for c, though it doesn't need it.
TEST(ExposedCollective, ATaskThatThePolicyMakesWait) {
  TimedStep step({{"a", "compute0", 10, "", "p"},
                  {"c", "data", 20, "p"},
                  {"d", "compute0", 30, "", "q"},
                  {"b", "compute0", 5, "p"}});
  step.hold("d", "c");
  ASSERT_EQ(step.report().step_ns(), 65 * kUs);
  const Explanation explanation = step.explained();
  EXPECT_EQ(found(explanation, *step.graph, "c").cause, ExposureCause::chosen);
  EXPECT_EQ(step.graph->task(found(explanation, *step.graph, "c").in_the_way).name, "d");
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c").front(), "unblock: 20");
}

// Data that no task of the step makes are there from its begin: how late the collective is doesn't count from there.
TEST(ExposedCollective, LatenessCountsUpToWhatWouldHideIt) {
  TimedStep step({{"d", "compute0", 100, "", "q"}, {"c", "data", 20, "W"}, {"b", "compute0", 5, "W"}});
  step.hold("c", "d");
  const Explanation explanation = step.explained();
  const ExposedCollective& c = found(explanation, *step.graph, "c");
  EXPECT_FALSE(c.input.valid());
  EXPECT_EQ(c.late_ns(), 100 * kUs);
  EXPECT_EQ(c.too_late_ns(), 20 * kUs);
}

// What the step recomputes for its backward pass can't stand in the way of its forward pass.
TEST(ExposedCollective, ComputationsOfOtherPassesAreNoCause) {
  const TimedStep step({{"a", "compute0", 10, "", "p"},
                        {"c", "data", 20, "p"},
                        {"b", "compute0", 5, "p"},
                        {"again", "compute0", 15, "", "q", graph::Phase::backward}});
  const Explanation explanation = step.explained();
  EXPECT_EQ(found(explanation, *step.graph, "c").cause, ExposureCause::data_dependency);
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c"), (std::vector<std::string>{"no_time: 20"}));
  ASSERT_EQ(explanation.between_passes.size(), 1U);
  EXPECT_EQ(explanation.between_passes[0].kind, RemedyKind::computations_moved);
  EXPECT_EQ(explanation.between_passes[0].gain_ns, 15 * kUs);
  EXPECT_EQ(explanation.between_passes[0].computations, 1U);
  EXPECT_EQ(explanation.between_passes[0].number, 1);
}

TEST(ExposedCollective, SaysWhatExchangesAreFor) {
  using graph::Channel;
  EXPECT_NE(purpose_of(graph::ExchangeRows{Channel::expert, 2, 4, 8, 16, 4}).find("experts"), std::string_view::npos);
  EXPECT_NE(purpose_of(graph::AllToAll{Channel::context, 2, 8}).find("heads"), std::string_view::npos);
  EXPECT_NE(purpose_of(graph::AllGather{Channel::expert, 2, 5}).find("how many rows"), std::string_view::npos);
  EXPECT_NE(purpose_of(graph::AllReduce{Channel::expert_copies, 2, 8}).find("gradients"), std::string_view::npos);
  EXPECT_EQ(purpose_of(graph::AllReduce{Channel::data, 2, 8}), "");
  EXPECT_EQ(purpose_of(graph::Gemm{2, 3, 4}), "");
}

}  // namespace
}  // namespace weft::simulate
