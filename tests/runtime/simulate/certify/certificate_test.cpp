// Certificates of bounds: never above the best of all orders, never below the other bounds, and refused when changed.
#include "runtime/simulate/certify/certificate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/simulate/certify/milestones.h"
#include "runtime/simulate/open_problem.h"
#include "tests/runtime/all_orders.h"
#include "tests/runtime/links.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/simulate/unit_policy.h"

namespace weft::simulate {
namespace {

/// A random graph with random costs, whose collectives slow computations down.
struct SlowedStep {
  Problem problem;
  cost::TaskCosts costs;

  /// More tensors, fewer edges.
  explicit SlowedStep(std::uint64_t seed, std::size_t more_tensors = 0) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.tasks = static_cast<std::size_t>(draws.between(3, 7));
    size.tensors = static_cast<std::size_t>(draws.between(3, 6)) + more_tensors;
    size.channels = static_cast<std::size_t>(draws.between(1, 2));
    size.collective_percent = 45;
    problem.classes = {testing::random_graph(seed, size)};
    problem.grid = {.x = 2, .z = 2, .data = 2};
    if (draws.chance(80))
      problem.machine.slowdowns = {{.compute = "", .collective = "", .factor = draws.chance(50) ? 1.25 : 2}};
    if (draws.chance(25)) {
      problem.machine.shared_cores = true;
      problem.machine.cores = 2;
    }
    problem.options.machine = std::make_shared<const cost::Machine>(problem.machine);
    problem.options.link_of_channel = draws.chance(50) ? testing::own_links() : testing::one_link();
    problem.simulation.link_of_channel = problem.options.link_of_channel;
    for (const graph::Task& task : problem.first().tasks()) {
      costs.ns.push_back(draws.chance(10) ? 0 : static_cast<double>(draws.between(1, 20)));
      const bool sends = graph::is_collective(task.operation);
      costs.link_ns.push_back(sends && draws.chance(50) ? costs.ns.back() / 2 : costs.ns.back());
      costs.cpu_ns.push_back(sends && draws.chance(50) ? costs.ns.back() : 0);
    }
  }
  graph::OpenGraph open() const { return open_graph_of(problem.classes, {&costs, 1}, problem, "small"); }
  /// Of all orders on one compute stream.
  double best_step() const {
    return testing::least_of_all_orders(problem.first(), [&](const plan::Order& order) {
      return testing::timetable_of(problem.first(), order, costs, problem.options).makespan;
    });
  }
  Bounds bounds() const {
    return lower_bounds(problem.classes, {&costs, 1}, problem.machine, 1, problem.options.link_of_channel);
  }
};

/// An open graph, task by task; channel −1: a computation.
struct OpenSteps {
  graph::OpenGraph open;

  OpenSteps() {
    for (const char* name : {"a", "b", "c"}) open.channels.push_back({.name = name});
    open.classes.emplace_back().edges_from_accesses = false;
  }
  std::uint32_t add(double ns, std::int32_t channel, const std::vector<std::uint32_t>& after) {
    graph::OpenClass& one = open.classes[0];
    const auto number = static_cast<std::uint32_t>(one.tasks.size());
    graph::OpenTask& task = one.tasks.emplace_back();
    task.name = std::to_string(number);
    task.operation = channel < 0 ? "compute" : "sum";
    task.kind = channel < 0 ? graph::OpenKind::compute : graph::OpenKind::collective;
    task.channel = channel;
    task.ns = ns;
    for (const std::uint32_t from : after) one.edges.push_back({from, number});
    return number;
  }
};

TEST(Certificate, IsNeverAboveTheBestOrderNorBelowOtherBounds) {
  int attained = 0, better = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const SlowedStep step(seed);
    const GraphCertificate certificate = certify(step.open());
    const double best = step.best_step(), old = step.bounds().best();
    EXPECT_LE(certificate.bound_ns, best * (1 + 1e-9)) << seed;
    EXPECT_GE(certificate.bound_ns, old * (1 - 1e-9)) << seed;
    EXPECT_GE(proved_by(certificate, step.open()), certificate.bound_ns) << seed;
    attained += certificate.bound_ns >= best * (1 - 1e-9) ? 1 : 0;
    better += certificate.bound_ns > old * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GE(attained, 200);
  EXPECT_GE(better, 10);
}

TEST(Certificate, MilestonesAreNeverAboveTheBestOrder) {
  int better = 0, attained = 0;
  for (std::uint64_t seed = 1000; seed < 1400; ++seed) {
    const SlowedStep step(seed, seed % 4);
    const graph::OpenGraph open = step.open();
    const StepModel model(open);
    const std::vector<double> head = model.longest_paths(true), tail = model.longest_paths(false);
    const Limits limits{head, tail};
    const double best = step.best_step();
    const GraphCertificate by_windows = certify_by_windows(open), either = certify(open);
    const std::optional<MilestoneProof> proof = search_prices(model, limits, std::max(1.0, by_windows.bound_ns));
    if (proof) {
      EXPECT_LE(proved_by(*proof, model, limits), best * (1 + 1e-9)) << seed;
    }
    EXPECT_LE(either.bound_ns, best * (1 + 1e-9)) << seed;
    EXPECT_GE(either.bound_ns, by_windows.bound_ns) << seed;
    EXPECT_GE(proved_by(either, open), either.bound_ns) << seed;
    if (!either.milestones) continue;
    ++better;
    attained += either.bound_ns >= best * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GE(better, 5);
  EXPECT_GE(attained, 1);
}

TEST(Certificate, AnyPricesOfAnyChainProveNoMoreThanTheBestOrder) {
  int positive = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SlowedStep step(seed, seed % 3);
    const graph::OpenGraph open = step.open();
    const StepModel model(open);
    const std::vector<double> zero(model.nodes(), 0);
    const double best = step.best_step();
    testing::Draws draws(seed + 77);
    for (int trial = 0; trial < 20; ++trial) {
      MilestoneProof proof;
      // A walk along edges, some of whose tasks are milestones.
      std::uint32_t node = model.order()[0];
      while (true) {
        if (proof.milestones.empty() || draws.chance(60)) proof.milestones.push_back(model.task_of(node));
        if (model.after(node).empty()) break;
        node = model.after(node)[static_cast<std::size_t>(draws.between(0, std::ssize(model.after(node)) - 1))];
      }
      const auto end = static_cast<std::int64_t>(2 * proof.milestones.size());
      std::vector<double> left(static_cast<std::size_t>(end) + 1, 1);
      for (const StepResource& resource : model.resources()) {
        PricedLoad load{.resource = resource.name};
        if (draws.chance(30)) load.chosen = {static_cast<double>(draws.between(0, 10)), 0};
        const std::vector<StepResource>& slowing = model.slowing(0);
        if (resource.name.kind == ResourceKind::computations && !slowing.empty() && draws.chance(70))
          load.beside = slowing[static_cast<std::size_t>(draws.between(0, std::ssize(slowing) - 1))].name;
        for (int charges = 0; charges < 3; ++charges) {
          const std::int64_t first = draws.chance(50) ? 0 : draws.between(0, end), last = draws.between(first, end);
          const auto during = static_cast<std::int32_t>(draws.chance(50) ? -1 : draws.between(-2, end / 2 - 1));
          Charge charge{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), during, 1};
          for (std::int64_t part = first; part <= last; ++part)
            charge.price = std::min(charge.price, left[static_cast<std::size_t>(part)]);
          if (draws.chance(50)) charge.price /= 2;
          for (std::int64_t part = first; part <= last; ++part) left[static_cast<std::size_t>(part)] -= charge.price;
          load.charges.push_back(charge);
        }
        proof.loads.push_back(load);
      }
      const double proved = proved_by(proof, model, {zero, zero});
      EXPECT_LE(proved, best * (1 + 1e-9)) << seed;
      positive += proved > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(positive, 2000);
}

TEST(Certificate, MilestonesCountWhatMustRunBesideAChain) {
  // Three computations of 10 with a sum of 10 between two of them, and five sums of 6 on another channel, beside which
  // computations run at half of their speed. The path takes 50, and all computations 30 + 15. But only 20 of the five
  // sums fit beside the chain's sums, and the other 10 cost the computations 5.
  OpenSteps step;
  step.open.contention.emplace().slowdowns.push_back({.compute = "", .collective = "slow", .factor = 2});
  std::uint32_t last = step.add(10, -1, {});
  for (int i = 0; i < 2; ++i) last = step.add(10, -1, {step.add(10, 0, {last})});
  for (int i = 0; i < 5; ++i) step.open.classes[0].tasks[step.add(6, 1, {})].operation = "slow";
  const GraphCertificate windows = certify_by_windows(step.open), certificate = certify(step.open);
  EXPECT_NEAR(windows.bound_ns, 50, 1e-6);
  ASSERT_TRUE(certificate.milestones);
  EXPECT_NEAR(certificate.bound_ns, 55, 1e-4);

  GraphCertificate changed = certificate;
  changed.milestones->loads[0].charges[0].price += 0.5;
  EXPECT_LT(proved_by(changed, step.open), certificate.bound_ns) << "parts pay more than 1";
  changed = certificate;
  std::ranges::reverse(changed.milestones->milestones);
  EXPECT_EQ(proved_by(changed, step.open), 0) << "no chain";
}

TEST(Branch, DecidesAnOrderThatWindowsLeaveOpen) {
  // A computation of 10 with a tail of 2, and one of 1 with a head of 1 and a tail of 9. Windows allow the second one
  // in the middle of the first: 13. Before it, it leaves the stream idle for 1.
  OpenSteps step;
  step.add(2, 0, {step.add(10, -1, {})});
  step.add(9, 2, {step.add(1, -1, {step.add(1, 1, {})})});
  const GraphCertificate root = certify(step.open);
  EXPECT_NEAR(root.bound_ns, 13, 1e-9);
  const GraphCertificate proof = split_into_cases(step.open, root, 14, 10);
  EXPECT_NEAR(proof.bound_ns, 14, 1e-9);
  ASSERT_TRUE(proof.split);
  EXPECT_GE(proved_by(proof, step.open), proof.bound_ns);
  EXPECT_LT(proved_by(proof.branches[0], step.open), proof.bound_ns) << "a case isn't the whole";
}

TEST(Branch, ProvesTheOptimumWhereQueuesAreAllThatIsShared) {
  int split = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SlowedStep step(seed, 8);
    step.problem.machine = {};
    step.problem.options.machine = nullptr;
    step.problem.options.link_of_channel = step.problem.simulation.link_of_channel = testing::own_links();
    const graph::OpenGraph open = step.open();
    const double best = step.best_step();
    const GraphCertificate root = certify(open), proof = split_into_cases(open, root, best, 200);
    EXPECT_NEAR(proof.bound_ns, best, 1e-9 * best) << seed;
    EXPECT_GE(proved_by(proof, open), proof.bound_ns) << seed;
    split += proof.split ? 1 : 0;
  }
  EXPECT_GE(split, 1);
}

TEST(Branch, IsNeverAboveTheBestOrderWhereTasksSlowEachOtherDown) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const SlowedStep step(seed);
    const double best = step.best_step();
    const GraphCertificate root = certify(step.open()), proof = split_into_cases(step.open(), root, best, 12);
    EXPECT_LE(proof.bound_ns, best * (1 + 1e-9)) << seed;
    EXPECT_GE(proof.bound_ns, root.bound_ns) << seed;
    EXPECT_GE(proved_by(proof, step.open()), proof.bound_ns) << seed;
  }
}

TEST(Branch, TasksThatMayRunAtOnceAreNoSplit) {
  const SlowedStep step(3);
  graph::OpenGraph open = step.open();
  GraphCertificate proof = certify(open);
  const auto computation = std::ranges::find(open.classes[0].tasks, graph::OpenKind::compute, &graph::OpenTask::kind);
  const auto sum = std::ranges::find(open.classes[0].tasks, graph::OpenKind::collective, &graph::OpenTask::kind);
  ASSERT_TRUE(computation != open.classes[0].tasks.end() && sum != open.classes[0].tasks.end());
  const auto number = [&](auto task) { return static_cast<std::uint32_t>(task - open.classes[0].tasks.begin()); };
  const GraphCertificate half = proof;
  proof.split = Split{0, number(computation), number(sum)};
  proof.branches = {half, half};
  EXPECT_EQ(proved_by(proof, open), 0);
}

TEST(Certificate, HeadsAfterAMeetingHoldWhatPrecedesIt) {
  // Two computations of 10 and a sum of 5 of each meet in a task of 1, after which two sums of 10 share the channel.
  // Longest paths alone give heads of 16 after the meeting and tails of 16 before it.
  OpenSteps step;
  const auto add = [&](double ns, bool sum, const std::vector<std::uint32_t>& after) {
    return step.add(ns, sum ? 0 : -1, after);
  };
  const auto a = add(10, false, {}), b = add(10, false, {});
  const auto meeting = add(1, false, {add(5, true, {a}), add(5, true, {b})});
  add(10, true, {meeting});
  add(10, true, {meeting});
  const graph::OpenGraph& open = step.open;
  const GraphCertificate certificate = certify(open);
  EXPECT_NEAR(certificate.bound_ns, 20 + 5 + 1 + 20, 1e-6);
  ASSERT_EQ(certificate.adjustments.size(), 1U);
  const Adjustment& adjustment = certificate.adjustments[0];
  EXPECT_EQ(adjustment.task, meeting);
  EXPECT_NEAR(adjustment.ns, adjustment.side == Adjustment::Side::head ? 25 : 20, 1e-6);

  GraphCertificate raised = certificate;
  raised.adjustments[0].ns = 26;
  EXPECT_LT(proved_by(raised, open), certificate.bound_ns);
  raised = certificate;
  raised.adjustments.clear();
  EXPECT_LT(proved_by(raised, open), certificate.bound_ns);
}

TEST(Certificate, PipelinesAreOneStep) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 4, .update = 10, .message = 200, .world = true});
  const Problem problem = testing::joint_problem(toy);
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    const Report report = report_plan(problem, policy::named_policy(name));
    ASSERT_TRUE(report.planned()) << report.refusal;
    const graph::OpenGraph open = open_graph_of(report.graphs(), report.costs, problem, "toy");
    const GraphCertificate certificate = certify(open);
    EXPECT_LE(certificate.bound_ns, report.step_ns());
    EXPECT_GE(certificate.bound_ns, report.bounds.best() * (1 - 1e-9));
    EXPECT_GE(proved_by(certificate, open), certificate.bound_ns);
  }
}

TEST(Certificate, AnotherStepHasAnotherFingerprint) {
  const SlowedStep step(3);
  const graph::OpenGraph open = step.open();
  const std::uint64_t print = bound_fingerprint(open);
  EXPECT_EQ(bound_fingerprint(step.open()), print);
  graph::OpenGraph changed = open;
  changed.classes[0].tasks[0].ns = *changed.classes[0].tasks[0].ns + 1;
  EXPECT_NE(bound_fingerprint(changed), print);
  changed = open;
  changed.classes[0].edges.pop_back();
  EXPECT_NE(bound_fingerprint(changed), print);
  changed = open;
  changed.contention->slowdowns.push_back({.compute = "", .collective = "", .factor = 3});
  EXPECT_NE(bound_fingerprint(changed), print);
}

}  // namespace
}  // namespace weft::simulate
