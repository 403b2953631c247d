#include "runtime/simulate/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace weft::simulate {
namespace {

/// The sequence of a plan as an order that can be changed and planned again.
plan::Order order_of(const plan::Plan& plan) {
  plan::Order order;
  for (const plan::StreamPlan& stream : plan.streams) order.streams.push_back(stream.stream);
  order.reasons = plan.reasons;
  for (const graph::TaskId task : plan.sequence) {
    const plan::Position at = plan.position[task.index()];
    order.sequence.push_back({task, at.stream, plan.streams[at.stream.index()].entries[at.entry].reason});
  }
  for (const graph::Edge& edge : plan.added_edges) {
    if (edge.reason == graph::EdgeReason::policy) order.added_edges.push_back(edge);
  }
  return order;
}

/// Drops the policy's edges that the changed sequence contradicts.
void drop_edges_against(plan::Order& order) {
  std::vector<std::size_t> place(order.sequence.size());
  for (std::size_t i = 0; i < order.sequence.size(); ++i) place[order.sequence[i].task.index()] = i;
  std::erase_if(order.added_edges, [&](const graph::Edge& edge) {
    return edge.distance == 0 && place[edge.from.index()] >= place[edge.to.index()];
  });
}

/// Moves the task as early in the sequence as the graph allows; false if it is already there.
bool move_behind_inputs(const SimulatedStep& step, plan::Order& order, graph::TaskId task) {
  const auto from = std::ranges::find(order.sequence, task, &plan::Placement::task);
  auto behind = order.sequence.begin();
  for (const graph::Edge& edge : step.graph.in_edges(task)) {
    if (edge.distance != 0) continue;
    behind = std::max(behind, std::ranges::find(order.sequence, edge.from, &plan::Placement::task) + 1);
  }
  if (behind >= from) return false;
  std::rotate(behind, from, from + 1);
  drop_edges_against(order);
  return true;
}

}  // namespace

Remedies::Remedies(const PlanningProblem& problem, const PlanReport& report)
    : problem_(problem), report_(report), options_(simulation_options(problem)) {
  options_.traced_ranks = 1;
}

void Remedies::find(const SimulatedStep& step, ExposedCollective& exposed) const {
  Tried tried;
  issue_at_once(step, exposed, tried);
  pass_queue(step, exposed, tried);
  compute_first(step, exposed, tried);
  lift_the_limit(exposed);
  cost_nothing(exposed);
  std::ranges::stable_sort(exposed.remedies, std::greater{}, &Remedy::gain_ns);
}

std::vector<Remedy> Remedies::rewrites() const {
  std::vector<Remedy> remedies;
  for (const plan::Rewrite& rewrite :
       {plan::Rewrite(plan::BucketAllReduces{}), plan::Rewrite(plan::SplitAllReduces{}),
        plan::Rewrite(plan::ReduceScatterAllGather{}), plan::Rewrite(plan::ReshardAfterForward{})}) {
    PlanningProblem changed = problem_;
    changed.rewrites.push_back(rewrite);
    const PlanReport other = report_plan(changed, report_.policy);
    if (other.planned()) remedies.push_back({plan::to_string(rewrite), report_.step_ns() - other.step_ns()});
  }
  std::ranges::stable_sort(remedies, std::greater{}, &Remedy::gain_ns);
  return remedies;
}

void Remedies::issue_at_once(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const {
  if (exposed.begin_ns <= exposed.ready_ns + kTick) return;
  plan::Order order = order_of(step.plan);
  std::erase_if(order.added_edges,
                [&](const graph::Edge& edge) { return edge.to == exposed.task && edge.distance == 0; });
  const graph::TaskId input = step.last_input(exposed.task);
  if (move_behind_inputs(step, order, exposed.task)) {
    try_order(order,
              fmt::format("issue it as soon as {}",
                          input.valid() ? step.name(input) + " is done" : std::string("the step begins")),
              exposed, tried);
  }
}

void Remedies::pass_queue(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const {
  if (exposed.cause != ExposureCause::queued) return;
  const graph::TaskId before = step.before_on_stream(exposed.task);
  plan::Order order = order_of(step.plan);
  const auto place = [&](graph::TaskId task) {
    return std::ranges::find(order.sequence, task, &plan::Placement::task);
  };
  // All of its predecessors must come before the collective that it overtakes.
  std::vector<bool> leads(step.graph.tasks().size(), false);
  leads[exposed.task.index()] = true;
  const auto first = place(before), last = place(exposed.task);
  for (auto at = last; at != first; --at) {
    if (!leads[at->task.index()]) continue;
    for (const graph::Edge& edge : step.graph.in_edges(at->task)) {
      if (edge.distance == 0) leads[edge.from.index()] = true;
    }
  }
  if (leads[before.index()]) return;
  std::stable_partition(first, last + 1, [&](const plan::Placement& p) { return leads[p.task.index()]; });
  std::erase_if(order.added_edges,
                [&](const graph::Edge& edge) { return edge.to == exposed.task && edge.distance == 0; });
  drop_edges_against(order);
  try_order(order, fmt::format("issue it before {}", step.name(before)), exposed, tried);
}

void Remedies::compute_first(const SimulatedStep& step, ExposedCollective& exposed, Tried& tried) const {
  const std::vector<bool> needs = descendants(step.graph, exposed.task);
  plan::Order order = order_of(step.plan);
  const auto first = std::ranges::find_if(
      order.sequence, [&](const plan::Placement& p) { return needs[p.task.index()] && !step.collective(p.task); });
  if (first == order.sequence.end()) return;
  std::vector<bool> stays(needs.size(), false);
  graph::TaskId example;  // the largest computation that moves
  double filled = 0;
  for (auto at = first; at != order.sequence.end(); ++at) {
    bool can_go = !needs[at->task.index()] && filled < exposed.exposed_ns;
    for (const graph::Edge& edge : step.graph.in_edges(at->task)) {
      if (edge.distance == 0 && stays[edge.from.index()]) can_go = false;
    }
    if (!can_go) {
      stays[at->task.index()] = true;
      continue;
    }
    if (step.collective(at->task)) continue;
    const double ns = step.costs.ns[at->task.index()];
    filled += ns;
    if (!example.valid() || ns > step.costs.ns[example.index()]) example = at->task;
  }
  if (filled <= 0) return;
  std::stable_partition(first, order.sequence.end(), [&](const plan::Placement& p) { return !stays[p.task.index()]; });
  drop_edges_against(order);
  try_order(order,
            fmt::format("compute {:.3f} ms of tasks that don't need it ({}, …) before the first that does",
                        filled * 1e-6, step.name(example)),
            exposed, tried);
}

void Remedies::lift_the_limit(ExposedCollective& exposed) const {
  if (exposed.cause != ExposureCause::memory_limit ||
      (problem_.options.memory_limit == 0 && problem_.options.memory == 0))
    return;
  PlanningProblem unlimited = problem_;
  unlimited.options.memory = unlimited.options.memory_limit = 0;
  const PlanReport other = report_plan(unlimited, report_.policy);
  if (!other.planned()) return;
  exposed.remedies.push_back({fmt::format("without a memory limit ({} MiB of scratch instead of {})",
                                          other.plan->scratch_bytes >> 20, report_.plan->scratch_bytes >> 20),
                              report_.step_ns() - other.step_ns()});
}

void Remedies::cost_nothing(ExposedCollective& exposed) const {
  cost::TaskCosts costs = report_.costs;
  costs.ns[exposed.task.index()] = costs.cpu_ns[exposed.task.index()] = 0;
  const Simulation other = simulate(*report_.plan, costs, problem_.machine, options_);
  exposed.remedies.push_back({"if it took no time at all", report_.step_ns() - other.step_ns});
}

void Remedies::try_order(const plan::Order& order, std::string what, ExposedCollective& exposed, Tried& tried) const {
  if (std::ranges::find(tried, order.sequence) != tried.end()) return;
  tried.push_back(order.sequence);
  const plan::Plan plan = plan::make_plan(report_.plan->graph, order, report_.plan->policy);
  const Simulation other = simulate(plan, report_.costs, problem_.machine, options_);
  exposed.remedies.push_back({std::move(what), report_.step_ns() - other.step_ns});
}

}  // namespace weft::simulate
