// Changes of an order that hide a collective, simulated by hand; times in microseconds.
#include "runtime/simulate/remedies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/links.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::found;
using testing::kUs;
using testing::remedies_of;
using testing::remedy_of;
using testing::TimedStep;
using testing::TimedTask;

// The predecessors of a collective overtake the queue with it, and the policy's edges that forbid this are dropped.
TEST(Remedies, WhatLeadsToACollectivePassesTheQueueToo) {
  TimedStep step({{"a", "compute0", 10, "", "p"},
                  {"c1", "data", 30, "p"},
                  {"x", "compute0", 2, "", "r"},
                  {"f", "compute0", 5, "", "q"},
                  {"c2", "data", 10, "q"},
                  {"b", "compute0", 25, "q"},
                  {"d", "compute0", 4, "p"}});
  step.hold("f", "x");
  ASSERT_EQ(step.report().step_ns(), 79 * kUs);  // a 10, c1 40, c2 50, b 75, d 79
  const Explanation explanation = step.explained();
  EXPECT_EQ(found(explanation, *step.graph, "c2").cause, ExposureCause::queued);
  // a 10, f 15, c2 25, c1 55; x 17, b 50, d 59
  const Remedy& pass = remedy_of(explanation, *step.graph, "c2", RemedyKind::pass_queue);
  EXPECT_EQ(pass.gain_ns, 20 * kUs);
  EXPECT_EQ(pass.computations, 1U);
}

// The input that is ready last isn't the last in the sequence.
TEST(Remedies, IssuesBehindAllInputsWhateverTheirOrder) {
  TimedStep step({{"long", "compute0", 50, "", "p"},
                  {"short", "compute1", 10, "", "q"},
                  {"d", "compute0", 60, "", "r"},
                  {"c", "data", 20, "pq"},
                  {"b", "compute1", 5, "p"}});
  step.hold("c", "d");
  ASSERT_EQ(step.report().step_ns(), 135 * kUs);
  const Explanation explanation = step.explained();
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c").front(), "issue_earlier: 25");
}

/// In each of three layers d holds c back, which could hide while d runs.
TimedStep held_back_layers() {
  std::vector<TimedTask> tasks;
  char tensor = 'a';
  const std::vector<std::string> layers = {"L0", "L1", "L2"};
  for (const std::string& layer : layers) {
    const std::string p(1, tensor++), q(1, tensor++);
    tasks.push_back({layer + ".a", "compute0", 10, "", p});
    tasks.push_back({layer + ".d", "compute0", 30, "", q});
    tasks.push_back({layer + ".c", "data", 20, p});
    tasks.push_back({layer + ".b", "compute0", 5, p + q});
  }
  TimedStep step(tasks);
  for (const std::string& layer : layers) step.hold(layer + ".c", layer + ".d");
  return step;
}

// Gains are those of all collectives of a group at once, beside that of the worst alone.
TEST(Remedies, OfAGroupAddUp) {
  const TimedStep step = held_back_layers();
  ASSERT_EQ(step.report().step_ns(), 195 * kUs);
  const Explanation explanation = step.explained();
  ASSERT_EQ(explanation.groups.size(), 1U);
  const Remedy& earlier = remedy_of(explanation, *step.graph, "L1.c", RemedyKind::issue_earlier);
  EXPECT_EQ(earlier.gain_ns, 60 * kUs);
  EXPECT_EQ(earlier.alone_ns, 20 * kUs);
  EXPECT_EQ(earlier.collectives, 3U);
  EXPECT_EQ(earlier.number, 1);
  EXPECT_EQ(explanation.remedy(1), &earlier);
  const Remedy& no_time = remedy_of(explanation, *step.graph, "L1.c", RemedyKind::no_time);
  EXPECT_EQ(no_time.gain_ns, 60 * kUs);
  EXPECT_EQ(no_time.alone_ns, 20 * kUs);
  EXPECT_EQ(no_time.number, 0);
}

// w is gathered for e. Issued when the step begins it would delay c on their common link; one computation earlier than
// it is, it hides and c isn't in its way.
TEST(Remedies, TryOneStepEarlierToo) {
  TimedStep step({{"a", "compute0", 10, "", "p"},
                  {"c", "x", 20, "p"},
                  {"b", "compute0", 30, "p", "q"},
                  {"d", "compute0", 30, "q", "r"},
                  {"g", "data", 25, "W"},
                  {"e", "compute0", 5, "Wr"}});
  step.problem.simulation.link_of_channel = step.problem.options.link_of_channel = testing::one_link();
  step.hold("g", "d");
  ASSERT_EQ(step.report().step_ns(), 120 * kUs);
  const Explanation explanation = step.explained();
  const Remedy& earlier = remedy_of(explanation, *step.graph, "g", RemedyKind::issue_earlier);
  EXPECT_EQ(earlier.gain_ns, 25 * kUs);
  // Of the moves that gain as much, the smallest: directly before d.
  ASSERT_GE(earlier.moves.size(), 2U);
  EXPECT_EQ(earlier.moves[1], (OrderMove{MoveKind::before, step.id("g"), step.id("d")}));
}

// Two collectives share a link, and c is needed first: e goes when c is done.
TEST(Remedies, LetOtherCommunicationGoFirst) {
  TimedStep step({{"a", "compute0", 10, "", "pq"},
                  {"c", "x", 20, "p"},
                  {"e", "data", 20, "q"},
                  {"b", "compute0", 25, "p"},
                  {"d", "compute0", 5, "q"}});
  step.problem.simulation.link_of_channel = step.problem.options.link_of_channel = testing::one_link();
  ASSERT_EQ(step.report().step_ns(), 80 * kUs);
  const Explanation explanation = step.explained();
  // a 10, c 30, e 50; b 55, d 60
  EXPECT_EQ(remedy_of(explanation, *step.graph, "c", RemedyKind::issue_later).gain_ns, 20 * kUs);
}

TEST(Remedies, RewritesAreTriedUnderTheSamePolicy) {
  const Problem problem = testing::five_reductions();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  ASSERT_TRUE(report.planned()) << report.refusal;
  ASSERT_EQ(report.step_ns(), 110 * kUs);
  const Explanation explanation = explain(problem, report, {});
  ASSERT_EQ(explanation.rewrites.size(), 4U);
  EXPECT_EQ(explanation.rewrites[0].what, "bucket=26214400");
  EXPECT_EQ(explanation.rewrites[0].gain_ns, 40 * kUs);
  EXPECT_EQ(explanation.rewrites[1].gain_ns, 0);  // nothing to do, for splits and gathers
  EXPECT_EQ(explanation.rewrites[3].what, "ar-to-rs-ag");
  EXPECT_EQ(explanation.rewrites[3].gain_ns, -50 * kUs);  // two collectives for each
}

}  // namespace
}  // namespace weft::simulate
