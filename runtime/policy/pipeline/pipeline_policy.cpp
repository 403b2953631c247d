#include "runtime/policy/pipeline/pipeline_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

std::vector<graph::TaskId> tasks_of(const ClassUnits& units, const Unit& unit) {
  const auto part = [&](Work work) { return units.tasks_of({work, unit.micro_batch, unit.stage}); };
  std::vector<graph::TaskId> tasks;
  if (unit.work == Work::backward) {
    std::ranges::merge(part(Work::input), part(Work::weight), std::back_inserter(tasks));
  } else {
    tasks.assign(part(unit.work).begin(), part(unit.work).end());
  }
  return tasks;
}

/// Tasks of two units in turn, so that both begin and end together: the next comes from the unit of which a smaller
/// share of the time is over.
std::vector<graph::TaskId> alternate(const std::vector<graph::TaskId>& a, const std::vector<graph::TaskId>& b,
                                     std::span<const double> cost) {
  const auto total = [&](const std::vector<graph::TaskId>& tasks) {
    double sum = 0;
    for (const graph::TaskId task : tasks) sum += cost[task.index()];
    return std::max(sum, 1e-9);
  };
  const double all_a = total(a), all_b = total(b);
  std::vector<graph::TaskId> tasks;
  double done_a = 0, done_b = 0;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool first = j == b.size() || (i < a.size() && done_a / all_a <= done_b / all_b);
    tasks.push_back(first ? a[i++] : b[j++]);
    (first ? done_a : done_b) += cost[tasks.back().index()];
  }
  return tasks;
}

WantedSequence wanted_of(const PipelineProgram& program, std::size_t rank, const PipelineSchedules& schedules) {
  const graph::Graph& graph = *program.classes[rank];
  const ClassUnits& units = program.units[rank];
  WantedSequence wanted;
  wanted.tasks.reserve(graph.tasks().size());
  wanted.item.assign(graph.tasks().size(), 0);
  const auto add = [&](std::span<const graph::TaskId> tasks, const plan::Reason& reason) {
    const auto item = static_cast<std::uint32_t>(wanted.reasons.size());
    wanted.reasons.push_back(reason);
    wanted.reasons.back().selection = schedules.selection;
    for (const graph::TaskId task : tasks) wanted.item[task.index()] = item;
    wanted.tasks.insert(wanted.tasks.end(), tasks.begin(), tasks.end());
  };
  add(units.first(), {.table = &kPipelineReasons, .code = kBeforeFirst});
  for (const ScheduledUnit& each : schedules.ranks[rank]) {
    std::vector<graph::TaskId> tasks = tasks_of(units, each.unit);
    if (each.beside) tasks = alternate(tasks, tasks_of(units, *each.beside), program.costs[rank].ns);
    add(tasks, each.reason);
  }
  add(units.last(), {.table = &kPipelineReasons, .code = kAfterLast});
  return wanted;
}

}  // namespace

std::vector<plan::Order> PipelinePolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  if (!has_stages(classes)) {
    std::vector<plan::Order> orders;
    for (const auto& graph : classes) orders.push_back(program_order(*graph, options));
    return joined_orders(classes, std::move(orders), options);
  }
  PipelineProgram program{.classes = classes, .shape = shape_of(classes, chunks(), name())};
  for (const auto& graph : classes) {
    program.units.emplace_back(*graph, program.shape);
    program.costs.push_back(costs_of(*graph, options));
  }
  std::vector<plan::Order> orders = orders_of(program, schedules(program, options), options);
  const bool limited = options.memory > 0 || options.memory_limit > 0;
  if (!keeps_limits() || !limited) return orders;
  for (int again = 0; again < kLimitTries; ++again) {
    LimitedOrders tried = planned(classes, std::move(orders), options);
    if (tried.fits()) return std::move(tried.orders);
    program.memory_part *= kLimitMargin / tried.excess;
    orders = orders_of(program, schedules(program, options), options);
  }
  return orders;
}

std::vector<plan::Order> orders_of(const PipelineProgram& program, const PipelineSchedules& schedules,
                                   const PolicyOptions& options) {
  std::vector<WantedSequence> wanted;
  for (std::size_t rank = 0; rank < schedules.ranks.size(); ++rank)
    wanted.push_back(wanted_of(program, rank, schedules));
  return joint_orders(program.classes, program.costs, wanted, options);
}

}  // namespace weft::policy
