#include "runtime/simulate/report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/median.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/builtin/exact.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::simulate {
namespace {

std::string messages_chosen(std::span<const plan::Rewrite> all, std::span<const plan::Rewrite> users) {
  std::vector<plan::Rewrite> chosen;
  for (const plan::Rewrite& each : all) {
    const bool on_messages = std::holds_alternative<plan::BucketAllReduces>(each) ||
                             std::holds_alternative<plan::SplitAllReduces>(each) ||
                             std::holds_alternative<plan::ReduceScatterAllGather>(each);
    if (on_messages && std::ranges::find(users, each) == users.end()) chosen.push_back(each);
  }
  return plan::to_string(std::span<const plan::Rewrite>(chosen));
}

void make_plans(Report& report, const Problem& problem) {
  const auto begin = std::chrono::steady_clock::now();
  policy::Decision decision = policy::decide(problem.classes, *report.policy, problem.options, problem.rewrites);
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    ClassReport& of_class = report.classes.emplace_back();
    of_class.plan = std::make_shared<const plan::Plan>(
        plan::make_plan(std::move(decision.graphs[k]), decision.orders[k], report.policy->name()));
    of_class.rewrites = std::move(decision.rewrites[k]);
    of_class.messages = messages_chosen(of_class.rewrites, problem.rewrites);
    of_class.memory = plan::memory_report(*of_class.plan);
  }
  report.planning_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const std::vector<plan::Violation> violations = plan::check(report.plans(), 1);
  if (violations.empty()) return;
  throw std::runtime_error((report.classes.size() == 1 ? "the plan isn't safe: " : "the plans aren't safe: ") +
                           violations.front().message);
}

}  // namespace

double Report::gap() const {
  if (bounds.best() <= 0) return 0;
  const double gap = step_ns() / bounds.best() - 1;
  return std::abs(gap) < 1e-9 ? 0 : gap;  // the two add the same times in different orders
}

const SimulatedRank& Report::rank(std::size_t of_class) const {
  return simulation.ranks.at(simulation.of_class.at(of_class));
}

std::vector<const plan::Plan*> Report::plans() const {
  std::vector<const plan::Plan*> plans;
  for (const ClassReport& each : classes) plans.push_back(each.plan.get());
  return plans;
}

std::vector<std::shared_ptr<const graph::Graph>> Report::graphs() const {
  std::vector<std::shared_ptr<const graph::Graph>> graphs;
  for (const ClassReport& each : classes) graphs.push_back(each.plan->graph);
  return graphs;
}

PlayedClasses Report::played() const {
  PlayedClasses played{.plans = plans()};
  for (std::size_t k = 0; k < classes.size(); ++k) played.steps.push_back(&step(k));
  return played;
}

std::vector<ClassTimes> Report::times() const {
  std::vector<ClassTimes> all;
  for (const ClassReport& each : classes) all.push_back(each.times);
  return all;
}

const ClassReport& Report::most_exposed() const {
  return *std::ranges::max_element(classes, {}, [](const ClassReport& each) { return each.times.exposed; });
}

std::int64_t Report::memory_bytes() const {
  std::int64_t most = 0;
  for (const ClassReport& each : classes) most = std::max(most, each.memory.total());
  return most;
}

std::int64_t Report::scratch_bytes() const {
  std::int64_t most = 0;
  for (const ClassReport& each : classes) most = std::max(most, each.plan->scratch_bytes);
  return most;
}

std::string Report::order_for_memory() const {
  if (classes.empty() || first().plan == nullptr) return "";
  const plan::Plan& plan = *first().plan;
  const plan::Selection* selection = plan::selection_of(plan.reasons);
  return selection != nullptr && selection->keeps_limit && selection->order != plan.policy ? selection->order : "";
}

std::string Report::rewrites_for_memory() const {
  for (const ClassReport& each : classes) {
    if (each.plan == nullptr) continue;
    if (std::string rewrites = plan::rewrites_for_memory(*each.plan); !rewrites.empty()) return rewrites;
  }
  return "";
}

plan::Proof Report::proof() const {
  constexpr double kSameStep = 1e-6;
  if (classes.empty() || first().plan == nullptr || first().plan->policy != policy::ExactPolicy::kReasons.name)
    return {};
  const plan::Selection* selection = plan::selection_of(first().plan->reasons);
  const bool same = selection != nullptr && std::abs(selection->makespan_ns - step_ns()) <= kSameStep * step_ns();
  return same ? selection->proof : plan::Proof::none;
}

SimulationOptions simulation_options(const Problem& problem) {
  SimulationOptions options = problem.simulation;
  options.grid = problem.grid;
  if (options.link_of_channel.empty()) {
    options.link_of_channel = !problem.classes.empty() && problem.first().has_opaque_tasks()
                                  ? links_of_channels(problem.classes)
                                  : links_of_channels(problem.machine, problem.grid);
  }
  // Of every class the rank that stands for it is traced.
  if (options.traced_ranks > 0 && !options.class_ranks.empty()) options.traced_ranks = 0;
  if (options.traced_ranks > 0) {
    options.traced_ranks =
        std::max(options.traced_ranks, graph::rank_of(problem.grid, {.pipe = problem.grid.pipe - 1}) + 1);
  }
  return options;
}

void simulate_again(Report& report, const Problem& problem) {
  const SimulationOptions options = simulation_options(problem);
  report.costs = policy::costs_of_each(report.graphs(), problem.options);
  report.simulation = simulate(report.plans(), report.costs, problem.machine, options);
  report.bounds = lower_bounds(report.graphs(), report.costs, problem.machine, problem.options.compute_streams,
                               options.link_of_channel);
  const std::vector<ClassTimes> times = class_times(report.played());
  for (std::size_t k = 0; k < report.classes.size(); ++k) {
    ClassReport& each = report.classes[k];
    each.overlap = plan::summarize(*each.plan, report.step(k));
    each.channels = channel_times(*each.plan, report.step(k));
    each.alone = alone_times(each.graph(), report.costs[k]);
    each.times = times[k];
  }
}

Report report_plan(const Problem& problem, const policy::NamedPolicy& policy) {
  Report report{.policy = policy};
  try {
    make_plans(report, problem);
    simulate_again(report, problem);
  } catch (const std::exception& error) {
    report.refusal = error.what();
  }
  return report;
}

ProblemBounds bounds_of(const Problem& problem) {
  ProblemBounds result;
  for (const auto& graph : problem.classes)
    result.graphs.push_back(plan::rewrite(graph, problem.rewrites, problem.options.weight_layouts));
  result.costs = policy::costs_of_each(result.graphs, problem.options);
  result.bounds = lower_bounds(result.graphs, result.costs, problem.machine, problem.options.compute_streams,
                               simulation_options(problem).link_of_channel);
  result.alone = alone_times(*result.graphs.front(), result.costs.front());
  return result;
}

Robustness robustness_of(const Report& report, const Problem& problem, const Disturbance& disturbance) {
  if (disturbance.draws < 1) {
    throw UserError(std::to_string(disturbance.draws) + " draws of the noise", "at least one", "");
  }
  SimulationOptions options = simulation_options(problem);
  options.traced_ranks = 1;
  const auto step_ns = [&] { return simulate(report.plans(), report.costs, problem.machine, options).step_ns; };
  Robustness result;
  options.slow_rank = disturbance.slow_rank;
  result.slow_rank_ns = step_ns();
  options.slow_rank = problem.simulation.slow_rank;
  options.noise = disturbance.noise;
  std::vector<double> steps;
  for (int draw = 0; draw < disturbance.draws; ++draw) {
    steps.push_back(step_ns());
    ++options.seed;
  }
  result.median_ns = median(steps);
  std::ranges::sort(steps);
  const auto at = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(steps.size()))) - 1;
  result.p95_ns = steps[at];
  return result;
}

double hidden_share(double step_ns, double serial_ns, double bound_ns) {
  return serial_ns > bound_ns ? (serial_ns - step_ns) / (serial_ns - bound_ns) : 0;
}

}  // namespace weft::simulate
