// A trace's own costs replace the costs of the machine that the configuration was planned for.
#include "study/traced_costs.h"

#include <gtest/gtest.h>

#include "train/step/planning.h"

namespace weft::study {
namespace {

train::ResolvedRun run_on(const std::string& machine) {
  train::RunConfig config;
  config.grid.data = 2;
  config.ranks = 2;
  config.machine = machine;
  train::fill_in(config, 0);
  return train::resolve(config, 0);
}

TEST(TracedCosts, SimulateTheStepThatWasTraced) {
  const train::ResolvedRun run = run_on("dgx-h100");
  const simulate::Problem problem = train::planning_problem(run);
  simulate::Report report = simulate::report_plan(problem, run.policy);
  ASSERT_TRUE(report.planned()) << report.refusal;
  const double traced = report.step_ns();
  std::vector<plan::RankTrace> ranks;
  for (const simulate::SimulatedRank& rank : report.simulation.ranks) ranks.push_back({rank.rank, rank.steps});
  const plan::Recording recording = plan::record(*report.first().plan, ranks, 2, problem.grid);

  const simulate::Problem other = train::planning_problem(run_on("laptop"));
  simulate::simulate_again(report, other);
  EXPECT_GT(report.step_ns(), 10 * traced);  // another machine knows nothing of this one
  const simulate::Problem own = with_traced_costs(other, report.plans(), {&recording, 1});
  simulate::simulate_again(report, own);
  EXPECT_NEAR(report.step_ns(), traced, 0.02 * traced);
  EXPECT_LE(report.bounds.best(), 1.02 * traced);
  EXPECT_GT(report.bounds.best(), 0.5 * traced);
}

}  // namespace
}  // namespace weft::study
