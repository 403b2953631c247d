#include "runtime/simulate/plan_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/memory_report.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"

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

void make_plan(PlanReport& report, const PlanningProblem& problem) {
  const auto begin = std::chrono::steady_clock::now();
  policy::Decision decision = policy::decide({&problem.graph, 1}, *report.policy, problem.options, problem.rewrites);
  report.plan = std::make_shared<const plan::Plan>(
      plan::make_plan(std::move(decision.graphs.front()), decision.orders.front(), report.policy->name()));
  report.rewrites = std::move(decision.rewrites.front());
  report.messages = messages_chosen(report.rewrites, problem.rewrites);
  report.planning_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const std::vector<plan::Violation> violations = plan::check_plan(*report.plan, 1);
  if (!violations.empty()) throw std::runtime_error("the plan isn't safe: " + violations.front().message);
  report.memory_bytes = plan::memory_report(*report.plan).total();
}

}  // namespace

double PlanReport::gap() const {
  if (bounds.best() <= 0) return 0;
  const double gap = step_ns() / bounds.best() - 1;
  return std::abs(gap) < 1e-9 ? 0 : gap;  // the two add the same times in different orders
}

std::string PlanReport::order_for_memory() const {
  const plan::Selection* selection = plan == nullptr ? nullptr : plan::selection_of(plan->reasons);
  return selection != nullptr && selection->keeps_limit && selection->order != plan->policy ? selection->order : "";
}

SimulationOptions simulation_options(const PlanningProblem& problem) {
  SimulationOptions options = problem.simulation;
  options.grid = problem.grid;
  if (options.link_of_channel.empty()) {
    options.link_of_channel = problem.graph != nullptr && problem.graph->has_opaque_tasks()
                                  ? links_of_channels(*problem.graph)
                                  : links_of_channels(problem.machine, problem.grid);
  }
  return options;
}

void simulate_again(PlanReport& report, const PlanningProblem& problem) {
  const graph::Graph& graph = *report.plan->graph;
  report.costs = policy::costs_of(graph, problem.options);
  const SimulationOptions options = simulation_options(problem);
  report.simulation = simulate(*report.plan, report.costs, problem.machine, options);
  report.bounds = lower_bounds({&report.plan->graph, 1}, {&report.costs, 1}, problem.machine,
                               problem.options.compute_streams, options.link_of_channel);
  report.overlap = plan::summarize(*report.plan, report.step());
  report.channels = channel_times(*report.plan, report.step());
  report.alone = alone_times(graph, report.costs);
}

AloneTimes alone_times(const graph::Graph& graph, const cost::TaskCosts& costs) {
  AloneTimes alone;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Operation& operation = graph.tasks()[i].operation;
    const bool communicates = graph::is_collective(operation);
    if (!communicates && graph::channel_of(operation) != nullptr) continue;  // of a CPU thread, say
    (communicates ? alone.communication_ns : alone.compute_ns) += costs.ns[i];
  }
  return alone;
}

std::vector<ChannelTimes> channel_times(const plan::Plan& plan, const plan::StepTrace& step) {
  const plan::BusyTimes busy = plan::busy_times(plan, step);
  std::vector<ChannelTimes> channels;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    const plan::Stream& stream = plan.streams[i].stream;
    if (stream.compute || plan.graph->is_local(stream.channel)) continue;
    channels.push_back({stream.name, static_cast<double>(total_length(busy.streams[i])),
                        static_cast<double>(total_length(difference(busy.streams[i], busy.compute)))});
  }
  return channels;
}

PlanReport report_plan(const PlanningProblem& problem, const policy::NamedPolicy& policy) {
  PlanReport report;
  report.policy = policy;
  try {
    make_plan(report, problem);
    simulate_again(report, problem);
  } catch (const std::exception& error) {
    report.refusal = error.what();
  }
  return report;
}

ProblemBounds bounds_of(const PlanningProblem& problem) {
  const auto graph = plan::rewrite(problem.graph, problem.rewrites, problem.options.weight_layouts);
  const cost::TaskCosts costs = policy::costs_of(*graph, problem.options);
  ProblemBounds result;
  result.bounds = lower_bounds({&graph, 1}, {&costs, 1}, problem.machine, problem.options.compute_streams,
                               simulation_options(problem).link_of_channel);
  result.alone = alone_times(*graph, costs);
  result.graph = graph;
  result.costs = costs;
  return result;
}

double hidden_share(double step_ns, double serial_ns, double bound_ns) {
  return serial_ns > bound_ns ? (serial_ns - step_ns) / (serial_ns - bound_ns) : 0;
}

}  // namespace weft::simulate
