// Queries of a simulated step, by task; times in microseconds.
#include "runtime/simulate/simulated_step.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/policy/builtin/fsdp.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::kUs;
using testing::TimedStep;

// a 10 | c1 30 | d; c2 10 waits for c1 on its stream, and by an edge of the policy for e.
class TwoReductions : public ::testing::Test, public TimedStep {
 protected:
  TwoReductions()
      : TimedStep({{"a", "compute0", 10, "", "pq"},
                   {"c1", "data", 30, "p"},
                   {"e", "compute0", 5, "", "r"},
                   {"c2", "data", 10, "q"},
                   {"d", "compute0", 4, "p"}}) {
    hold("c2", "e");
    order.reasons.push_back(
        {.table = &policy::FsdpPolicy::kReasons, .code = policy::FsdpPolicy::kLimiter, .numbers = {2}});
    order.sequence[3].reason = 1;
    report_ = report();
  }
  Report report_;
};

TEST_F(TwoReductions, TimesAreOfTheStep) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.begin(id("a")), 0);
  EXPECT_EQ(step.begin(id("c2")), 40 * kUs);
  EXPECT_EQ(step.end(id("c2")), 50 * kUs);
  EXPECT_EQ(total_length(step.computing), 19 * kUs);
}

TEST_F(TwoReductions, WhatATaskWaitsFor) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.last_input(id("c2")), id("a"));
  EXPECT_EQ(step.ready(id("c2")), 10 * kUs);
  EXPECT_EQ(step.ready(id("a")), 0);
  EXPECT_EQ(step.before_on_stream(id("c2")), id("c1"));
  EXPECT_FALSE(step.before_on_stream(id("c1")).valid());
  EXPECT_EQ(step.last_added(id("c2")).from, id("e"));
  EXPECT_FALSE(step.last_added(id("c1")).from.valid());
}

TEST_F(TwoReductions, KindsReasonsAndDescendants) {
  const SimulatedStep step(report_);
  EXPECT_EQ(step.reason(id("c2")).code, policy::FsdpPolicy::kLimiter);
  EXPECT_EQ(step.reason(id("c1")).table, nullptr);
  EXPECT_EQ(kind_of(*graph, graph->task(id("c2"))), "all_reduce on data");
  EXPECT_EQ(kind_of(*graph, graph->task(id("a"))), "add");
  EXPECT_EQ(descendants(*graph, id("a")), (std::vector<bool>{false, true, false, true, true}));
  EXPECT_EQ(descendants(*graph, id("c2")), (std::vector<bool>(5, false)));
}

}  // namespace
}  // namespace weft::simulate
