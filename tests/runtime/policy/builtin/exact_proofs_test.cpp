// What `exact` says it proved, and every lower bound of a step, against the best of all plans with waits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>

#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/certify/certificate.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "runtime/simulate/open_problem.h"
#include "runtime/simulate/report.h"
#include "tests/runtime/all_plans.h"
#include "tests/runtime/links.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

class GivenCosts final : public cost::CostModel {
 public:
  explicit GivenCosts(cost::TaskCosts costs) : costs_(std::move(costs)) {}
  cost::TaskCosts costs(const graph::Graph&) const override { return costs_; }
  std::string source() const override { return "a draw"; }

 private:
  cost::TaskCosts costs_;
};

/// A step whose tasks contend in all ways that the simulator knows: slowdowns, shared links, shared cores, collectives
/// that are slower beside computations; on one or two compute streams.
struct ContendedStep {
  simulate::Problem problem;
  cost::TaskCosts costs;

  ContendedStep(std::uint64_t seed, std::size_t least, std::size_t most) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.tasks =
        static_cast<std::size_t>(draws.between(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
    size.tensors = size.tasks + static_cast<std::size_t>(draws.between(0, 4));
    size.channels = static_cast<std::size_t>(draws.between(1, 3));
    size.collective_percent = 45;
    problem.classes = {testing::random_graph(seed, size)};
    problem.grid = {.x = 2, .z = 2, .data = 2};
    problem.options.compute_streams = draws.chance(35) ? 2 : 1;
    constexpr double kFactors[] = {1, 1.25, 1.5, 2, 3};
    if (draws.chance(70)) problem.machine.slowdowns = {{"", "", kFactors[draws.below(5)]}};
    if (draws.chance(35)) {
      problem.machine.shared_cores = true;
      problem.machine.cores = static_cast<double>(draws.between(1, 3));
    }
    problem.options.machine = std::make_shared<const cost::Machine>(problem.machine);
    problem.options.link_of_channel = draws.chance(40) ? testing::own_links() : testing::one_link();
    problem.simulation.link_of_channel = problem.options.link_of_channel;
    const bool beside = draws.chance(30);
    for (const graph::Task& task : problem.first().tasks()) {
      costs.ns.push_back(draws.chance(5) ? 0 : static_cast<double>(draws.between(1, 20)));
      const bool sends = graph::is_collective(task.operation);
      const double ns = costs.ns.back();
      costs.link_ns.push_back(sends && draws.chance(30) ? ns / 2 : ns);
      costs.cpu_ns.push_back(sends && draws.chance(60) ? ns : 0);
      if (beside) costs.beside_ns.push_back(sends && draws.chance(60) ? 1.5 * ns : ns);
    }
    problem.options.cost_model = std::make_shared<const GivenCosts>(costs);
  }

  double step_of(const plan::Order& order) const {
    const plan::Plan plan = plan::make_plan(problem.classes.front(), order, "tried");
    return testing::simulate_plan(plan, costs, problem.machine, simulate::simulation_options(problem)).step_ns;
  }
};

/// What the steps of some seeds showed.
struct Tally {
  int steps = 0, proved = 0, without_waits = 0, waits_helped = 0, two_streams = 0, at_bound = 0;
};

constexpr double kSame = 1e-9;
constexpr std::int64_t kManyNodes = 200'000, kFewNodes = 60;

void expect_bounds_below(const ContendedStep& step, double least, std::uint64_t seed, Tally& tally) {
  simulate::Report report = simulate::report_plan(step.problem, named_policy("program"));
  simulate::prove_windows(step.problem, {&report, 1});
  const simulate::Bounds& bounds = report.bounds;
  for (const double bound : {bounds.critical_path, bounds.work, bounds.one_machine, bounds.energy, bounds.contention,
                             bounds.windows, bounds.best()}) {
    EXPECT_LE(bound, least * (1 + kSame)) << seed;
  }
  const graph::OpenGraph open = simulate::open_graph_of(step.problem.classes, {&step.costs, 1}, step.problem, "small");
  const simulate::GraphCertificate certificate = simulate::certify(open);
  EXPECT_LE(certificate.bound_ns, least * (1 + kSame)) << seed;
  EXPECT_LE(simulate::split_into_cases(open, certificate, least, 2).bound_ns, least * (1 + kSame)) << seed;
  tally.at_bound += bounds.best() >= least * (1 - kSame) ? 1 : 0;
}

/// What `exact` says after as many nodes is true.
void expect_true(const ContendedStep& step, std::int64_t nodes, double least, double ordered, std::uint64_t seed,
                 Tally& tally) {
  const std::string name = fmt::format("exact:budget=20,messages=off,nodes={}", nodes);
  const simulate::Report report = simulate::report_plan(step.problem, named_policy(name));
  ASSERT_EQ(report.refusal, "") << seed;
  EXPECT_TRUE(plan::check(report.plans()).empty()) << seed;
  EXPECT_GE(report.step_ns(), least * (1 - kSame)) << seed << ": brute force missed a plan";
  const plan::Selection* selection = plan::selection_of(report.first().plan->reasons);
  ASSERT_NE(selection, nullptr) << seed;
  EXPECT_NEAR(selection->makespan_ns, report.step_ns(), kSame * least) << seed;
  EXPECT_EQ(report.proof(), selection->proof) << seed;
  if (selection->proof == plan::Proof::optimal) {
    tally.proved += nodes == kManyNodes ? 1 : 0;
    EXPECT_NEAR(report.step_ns(), least, kSame * least) << seed;
  }
  if (selection->proof == plan::Proof::best_without_waits) {
    ++tally.without_waits;
    EXPECT_NEAR(report.step_ns(), ordered, kSame * least) << seed;
  }
}

/// Of the step with a seed.
void expect_proofs(std::uint64_t seed, Tally& tally) {
  const ContendedStep step(seed, 4, 8);
  const testing::AllPlans all(step.problem.first(), step.costs, step.problem.options);
  const double least = all.least();
  EXPECT_NEAR(step.step_of(all.best()), least, kSame * least) << seed;
  double ordered = 0;  // no step on two streams may be called the best of orders
  if (step.problem.options.compute_streams == 1) {
    ordered = testing::least_of_all_orders(step.problem.first(),
                                           [&](const plan::Order& order) { return step.step_of(order); });
  }
  ++tally.steps;
  tally.two_streams += ordered == 0 ? 1 : 0;
  tally.waits_helped += least < ordered * (1 - 1e-6) ? 1 : 0;
  for (const std::int64_t nodes : {kManyNodes, kFewNodes, std::int64_t{0}})
    expect_true(step, nodes, least, ordered, seed, tally);
  expect_bounds_below(step, least, seed, tally);
}

Tally proofs_of(std::uint64_t first, std::uint64_t count) {
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    expect_proofs(seed, tally);
    if (::testing::Test::HasFatalFailure()) break;
  }
  ::testing::Test::RecordProperty("steps", tally.steps);
  ::testing::Test::RecordProperty("proved_optimal", tally.proved);
  ::testing::Test::RecordProperty("best_without_waits", tally.without_waits);
  ::testing::Test::RecordProperty("waits_helped", tally.waits_helped);
  ::testing::Test::RecordProperty("two_streams", tally.two_streams);
  ::testing::Test::RecordProperty("at_a_bound", tally.at_bound);
  return tally;
}

TEST(ExactProofs, HoldAgainstAllPlansWithWaits) {
  const Tally tally = proofs_of(0, 60);
  EXPECT_EQ(tally.proved, 60);
  EXPECT_GE(tally.waits_helped, 3);
  EXPECT_GE(tally.two_streams, 10);
  EXPECT_GE(tally.without_waits, 1);
}

// In tests/thorough.txt.
TEST(ExactProofs, HoldOnTwoThousandGraphs) {
  const Tally tally = proofs_of(10'000, 2'000);
  EXPECT_EQ(tally.proved, 2'000);
  EXPECT_GE(tally.waits_helped, 100);
  EXPECT_GE(tally.two_streams, 500);
  EXPECT_GE(tally.without_waits, 10);
}

// The brute force tries starts. Here are plans as files have them, one by one.
TEST(ExactProofs, TheBestStartsAreThoseOfTheBestPlanFile) {
  int waited = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ContendedStep step(seed, 3, 4);
    double least = std::numeric_limits<double>::infinity(), without = least;
    testing::for_each_plan(step.problem.first(), step.problem.options.compute_streams, [&](const plan::Order& order) {
      const double ns = step.step_of(order);
      least = std::min(least, ns);
      if (order.added_edges.empty()) without = std::min(without, ns);
    });
    EXPECT_NEAR(testing::AllPlans(step.problem.first(), step.costs, step.problem.options).least(), least, kSame * least)
        << seed;
    waited += least < without * (1 - kSame) ? 1 : 0;
  }
  EXPECT_GE(waited, 1);
}

}  // namespace
}  // namespace weft::policy
