// Disturbed steps: nothing changes without a disturbance, and the cost of a disturbance is in proportion.
#include "runtime/simulate/robustness.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/priced_toy.h"

namespace weft::simulate {
namespace {

using testing::problem_of;
using testing::ToyGraph;

/// 100 computations one after the other, a gradient's sum beside the last of them.
Problem chain() {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 64, graph::Role::parameter), q = toy.tensor("q", 64, graph::Role::parameter);
  std::map<std::string, double> prices;
  toy.compute("g", {graph::write(q)});
  toy.collective("r", graph::Channel::data, {graph::read_write(q)}, 64);
  prices["g"] = 1000, prices["r"] = 3000;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "c" + std::to_string(i);
    toy.compute(name, {graph::read_write(p)});
    prices[name] = 1000;
  }
  return problem_of(toy.build(), prices);
}

TEST(Robustness, OfTinyNoiseIsTheStepItself) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("program"));
  const Robustness result = robustness_of(report, problem, {.noise = 1e-9, .slow_rank = 1, .draws = 3});
  EXPECT_NEAR(result.median_ns / report.step_ns(), 1, 1e-6);
  EXPECT_NEAR(result.p95_ns / report.step_ns(), 1, 1e-6);
  EXPECT_EQ(result.slow_rank_ns, report.step_ns());
}

TEST(Robustness, GrowsWithTheDisturbance) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  const Robustness calm = robustness_of(report, problem, {.noise = 0.05}), wild = robustness_of(report, problem, {});
  for (const Robustness& result : {calm, wild}) {
    EXPECT_GE(result.p95_ns, result.median_ns);
    // 101 of 104 µs are computations, which take 1.2 times as long.
    EXPECT_NEAR(result.slow_rank_ns, 3000 + 1.2 * 101000, 1);
  }
  EXPECT_GT(wild.p95_ns - wild.median_ns, calm.p95_ns - calm.median_ns);
  // The mean of 101 tasks spreads a tenth as much as a single task.
  EXPECT_LT(wild.p95_ns / report.step_ns(), 1.2);
}

TEST(Robustness, TheSameDrawsEveryTime) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("program"));
  const Robustness first = robustness_of(report, problem, {}), second = robustness_of(report, problem, {});
  EXPECT_EQ(first.median_ns, second.median_ns);
  EXPECT_EQ(first.p95_ns, second.p95_ns);
}

TEST(Robustness, RefusesWhatIsNoDisturbance) {
  const Problem problem = chain();
  const Report report = report_plan(problem, policy::named_policy("serial"));
  EXPECT_THROW(robustness_of(report, problem, {.noise = -1}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.slow_rank = 0}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.noise = std::numeric_limits<double>::quiet_NaN()}), UserError);
  EXPECT_THROW(robustness_of(report, problem, {.draws = 0}), UserError);
}

}  // namespace
}  // namespace weft::simulate
