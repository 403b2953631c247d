// Remedies applied together: the plan, its step against the promise, and what is refused.
#include "runtime/simulate/applied_remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::kUs;
using testing::remedy_of;
using testing::TimedStep;

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
    try {
      apply_remedies(problem, report, explanation, numbers);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
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
  EXPECT_EQ(other.refusal({1}), "accepted");
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
