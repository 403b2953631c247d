#include "runtime/policy/builtin/program.h"

#include <utility>
#include <vector>

#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

/// Moves each gather to where it may be issued. Returns by task the computation before which it must not be issued;
/// invalid for gathers that may be issued at once and for other tasks.
std::vector<graph::TaskId> anchor_gathers(const graph::Graph& graph, std::size_t depth, ReorderedProgram& program) {
  std::vector<graph::TaskId> anchors(graph.tasks().size());
  std::vector<graph::TaskId> first_of_visit;  // its first computation
  graph::TaskId last;                         // last computation so far
  for (const Visit& visit : visits_of(graph)) {
    first_of_visit.emplace_back();
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      const graph::Task& task = graph.tasks()[i];
      if (!graph::is_collective(task.operation)) {
        last = graph::TaskId(i);
        if (!first_of_visit.back().valid()) first_of_visit.back() = last;
      } else if (is_gather(task)) {
        const bool waits = first_of_visit.size() > depth;
        const graph::TaskId anchor = waits ? first_of_visit[first_of_visit.size() - 1 - depth] : graph::TaskId();
        anchors[i] = waits && !anchor.valid() ? last : anchor;  // a visit may begin with its gather
        if (anchors[i].valid()) program.behind(graph::TaskId(i), anchors[i]);
        if (!anchors[i].valid()) program.before(graph::TaskId(i), graph::TaskId(std::size_t{0}));
      }
    }
  }
  return anchors;
}

}  // namespace

ProgramPolicy::ProgramPolicy(PolicyParameters& parameters) : depth_(parameters.integer("depth", -1, 0, 1 << 20)) {}

plan::Order ProgramPolicy::order_of(const graph::Graph& graph, const PolicyOptions& options) const {
  ReorderedProgram program(graph);
  std::vector<graph::TaskId> anchors;
  if (depth_ >= 0) anchors = anchor_gathers(graph, static_cast<std::size_t>(depth_), program);
  plan::Order order = program_order(graph, options, program.sequence());
  if (depth_ < 0) return order;
  const auto reason = static_cast<std::uint32_t>(order.reasons.size());
  order.reasons.push_back({.table = &kReasons, .numbers = {static_cast<std::uint64_t>(depth_)}});
  EdgeAdder edges(order);
  for (plan::Placement& placement : order.sequence) {
    const graph::TaskId anchor = anchors[placement.task.index()];
    if (!anchor.valid() || !edges.add(anchor, placement.task, graph::EdgeKind::issued_before)) continue;
    placement.reason = reason;
  }
  return order;
}

std::vector<plan::Order> ProgramPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<plan::Order> orders;
  for (const auto& graph : classes) orders.push_back(order_of(*graph, options));
  return joined_orders(classes, std::move(orders), options);
}

}  // namespace weft::policy
