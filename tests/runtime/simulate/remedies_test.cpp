// Changes of an order that hide a collective, simulated by hand; times in microseconds.
#include "runtime/simulate/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
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

// A remedy tells the gain of all collectives of a group at once, and the gain of the worst alone.
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

/// d1 holds c1 back, which could hide while it runs; then the same again with d2 and c2.
TimedStep held_back_twice() {
  TimedStep step({{"a1", "compute0", 10, "", "p"},
                  {"d1", "compute0", 30, "", "q"},
                  {"c1", "data", 20, "p"},
                  {"b1", "compute0", 5, "p"},
                  {"a2", "compute0", 10, "", "r"},
                  {"d2", "compute0", 30, "", "s"},
                  {"c2", "data", 15, "r"},
                  {"b2", "compute0", 5, "r"}});
  for (const std::string n : {"1", "2"}) {
    step.hold("c" + n, "d" + n);
    step.hold("b" + n, "c" + n);
  }
  return step;
}

struct HeldBack : TimedStep {
  HeldBack() : TimedStep(held_back_twice()), report(TimedStep::report()), explanation(explained()) {}
  int number(const std::string& task, RemedyKind kind) const {
    return remedy_of(explanation, *graph, task, kind).number;
  }
  std::string refusal(const std::vector<int>& numbers) const {
    return testing::message_of<UserError>([&] { apply_remedies(problem, report, explanation, numbers); });
  }
  Report report;
  Explanation explanation;
};

TEST(AppliedRemedies, GainWhatTheyPromise) {
  const HeldBack toy;
  for (int number = 1; number <= toy.explanation.remedies(); ++number) {
    const Remedy& remedy = *toy.explanation.remedy(number);
    const AppliedRemedies applied = apply_remedies(toy.problem, toy.report, toy.explanation, std::vector<int>{number});
    EXPECT_NEAR(applied.gain_ns, remedy.gain_ns, 1) << remedy.what;
    EXPECT_EQ(applied.promised_ns, remedy.gain_ns);
    EXPECT_EQ(applied.step_ns, toy.report.step_ns() - applied.gain_ns);
    const plan::Order replayed = plan::order_of(applied.file.front(), *toy.graph, "file", {});
    EXPECT_EQ(replayed.sequence.size(), toy.graph->tasks().size());
  }
}

TEST(AppliedRemedies, AddUpWhereTheyAreIndependent) {
  const HeldBack toy;
  const int first = toy.number("c1", RemedyKind::issue_earlier), second = toy.number("c2", RemedyKind::issue_earlier);
  ASSERT_GT(first, 0);
  ASSERT_GT(second, 0);
  const AppliedRemedies both =
      apply_remedies(toy.problem, toy.report, toy.explanation, std::vector<int>{second, first});
  EXPECT_EQ(both.numbers, (std::vector<int>{std::min(first, second), std::max(first, second)}));
  EXPECT_EQ(both.gain_ns, (20 + 15) * kUs);
  EXPECT_EQ(both.promised_ns, (20 + 15) * kUs);
  EXPECT_TRUE(std::ranges::any_of(both.file.front().reasons,
                                  [](const std::string& reason) { return reason.starts_with("weft explain: "); }));
}

TEST(AppliedRemedies, RefusesNumbersThatArentThere) {
  const HeldBack toy;
  const int most = toy.explanation.remedies();
  EXPECT_NE(toy.refusal({most + 1}).find("there is no remedy " + std::to_string(most + 1)), std::string::npos);
  EXPECT_NE(toy.refusal({most + 1}).find("from 1 to " + std::to_string(most)), std::string::npos);
  EXPECT_NE(toy.refusal({0}).find("there is no remedy 0"), std::string::npos);
  EXPECT_NE(toy.refusal({1, 1}).find("chosen twice"), std::string::npos);
}

// A promise that the simulation doesn't keep is refused, and so is a plan that takes too much memory.
TEST(AppliedRemedies, RefusesAPlanThatIsntBetter) {
  HeldBack toy;
  for (ExposureGroup& group : toy.explanation.groups) {
    for (Remedy& remedy : group.remedies) {
      if (remedy.number == 1) remedy.moves = {{MoveKind::release, toy.graph->find_task("b1"), {}}};
    }
  }
  EXPECT_NE(toy.refusal({1}).find("shorter"), std::string::npos) << toy.refusal({1});
  const HeldBack other;
  HeldBack tight;
  tight.problem.options.memory_limit = 1;
  EXPECT_NE(tight.refusal({1}).find("of memory"), std::string::npos) << tight.refusal({1});
  EXPECT_EQ(other.refusal({1}), "");
}

// A remedy that takes too much memory has no number.
TEST(AppliedRemedies, RemediesKeepTheMemoryLimit) {
  HeldBack toy;
  toy.problem.options.memory_limit = toy.report.first().plan->scratch_bytes;
  const Explanation explanation = toy.explained();
  for (const ExposureGroup& group : explanation.groups) {
    for (const Remedy& remedy : group.remedies) {
      EXPECT_TRUE(remedy.number == 0 || remedy.memory_bytes <= 0) << remedy.what;
    }
  }
}

TEST(AppliedRemedies, ARewriteIsPlannedByThePolicy) {
  const Problem problem = testing::five_reductions();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  const Explanation explanation = explain(problem, report, {});
  const Remedy& bucket = explanation.rewrites[0];
  ASSERT_GT(bucket.number, 0);
  const AppliedRemedies applied = apply_remedies(problem, report, explanation, std::vector<int>{bucket.number});
  EXPECT_EQ(applied.gain_ns, 40 * kUs);
  EXPECT_EQ(plan::to_string(applied.file.front().rewrites), bucket.what);
  EXPECT_EQ(applied.file.front().sequence.size(), 7U);
}

}  // namespace
}  // namespace weft::simulate
