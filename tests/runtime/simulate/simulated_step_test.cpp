// Queries of a simulated step, by task; times in microseconds.
#include "runtime/simulate/simulated_step.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::kUs;
using testing::order_of;
using testing::problem_of;
using testing::report_of;
using testing::ToyGraph;
using testing::us;

// a 10 | c1 30 | d; c2 10 waits for c1 on its stream, and by an edge of the policy for e.
class TwoReductions : public ::testing::Test {
 protected:
  TwoReductions() {
    ToyGraph toy;
    const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
    toy.compute("a", {graph::write(p), graph::write(q)});
    toy.collective("c1", graph::Channel::data, {graph::read_write(p)});
    toy.compute("e", {graph::write(r)});
    toy.collective("c2", graph::Channel::data, {graph::read_write(q)});
    toy.compute("d", {graph::read(p)});
    graph_ = toy.build();
    const PlanningProblem problem = problem_of(graph_, us({{"a", 10}, {"c1", 30}, {"e", 5}, {"c2", 10}, {"d", 4}}));
    plan::Order order =
        order_of(*graph_, 1, {{"a", "compute0"}, {"c1", "data"}, {"e", "compute0"}, {"c2", "data"}, {"d", "compute0"}});
    order.added_edges.push_back(
        {task("e"), task("c2"), graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
    order.reasons.push_back({.kind = plan::ReasonKind::limiter, .numbers = {2}});
    order.sequence[3].reason = 1;
    report_ = report_of(problem, order);
  }
  graph::TaskId task(const char* name) const { return graph_->find_task(name); }
  std::shared_ptr<const graph::Graph> graph_;
  PlanReport report_;
};

TEST_F(TwoReductions, TimesAreOfTheStep) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.begin(task("a")), 0);
  EXPECT_EQ(step.begin(task("c2")), 40 * kUs);
  EXPECT_EQ(step.end(task("c2")), 50 * kUs);
  EXPECT_EQ(total_length(step.computing), 19 * kUs);
}

TEST_F(TwoReductions, WhatATaskWaitsFor) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.last_input(task("c2")), task("a"));
  EXPECT_EQ(step.ready(task("c2")), 10 * kUs);
  EXPECT_EQ(step.ready(task("a")), 0);
  EXPECT_EQ(step.before_on_stream(task("c2")), task("c1"));
  EXPECT_FALSE(step.before_on_stream(task("c1")).valid());
  EXPECT_EQ(step.last_added(task("c2")).from, task("e"));
  EXPECT_FALSE(step.last_added(task("c1")).from.valid());
}

TEST_F(TwoReductions, KindsReasonsAndDescendants) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.reason(task("c2")).kind, plan::ReasonKind::limiter);
  EXPECT_EQ(step.reason(task("c1")).kind, plan::ReasonKind::other);
  EXPECT_EQ(kind_of(*graph_, graph_->task(task("c2"))), "all_reduce on data");
  EXPECT_EQ(kind_of(*graph_, graph_->task(task("a"))), "add");
  EXPECT_EQ(descendants(*graph_, task("a")), (std::vector<bool>{false, true, false, true, true}));
  EXPECT_EQ(descendants(*graph_, task("c2")), (std::vector<bool>(5, false)));
}

}  // namespace
}  // namespace weft::simulate
