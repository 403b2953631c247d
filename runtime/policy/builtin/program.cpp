#include "runtime/policy/builtin/program.h"

#include <vector>

#include "runtime/policy/scheduling/arrangement.h"

namespace weft {
namespace {

/// Tells each gather what it must not be issued before: the result by task, invalid for others and for gathers that may
/// come at once. Moves them to where they may be issued.
std::vector<TaskId> anchor_gathers(const Graph& graph, std::size_t depth, Arrangement& arrangement) {
  std::vector<TaskId> anchors(graph.tasks().size());
  std::vector<TaskId> first_of_visit;  // computation
  TaskId last;                         // computation so far
  for (const Visit& visit : visits_of(graph)) {
    first_of_visit.emplace_back();
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      const Task& task = graph.tasks()[i];
      if (!is_collective(task.operation)) {
        last = TaskId(i);
        if (!first_of_visit.back().valid()) first_of_visit.back() = last;
      } else if (is_gather(task)) {
        const bool waits = first_of_visit.size() > depth;
        const TaskId anchor = waits ? first_of_visit[first_of_visit.size() - 1 - depth] : TaskId();
        anchors[i] = waits && !anchor.valid() ? last : anchor;  // a visit may begin with its gather
        if (anchors[i].valid()) arrangement.behind(TaskId(i), anchors[i]);
        if (!anchors[i].valid()) arrangement.before(TaskId(i), TaskId(std::size_t{0}));
      }
    }
  }
  return anchors;
}

}  // namespace

ProgramPolicy::ProgramPolicy(PolicyParameters& parameters) : depth_(parameters.integer("depth", -1, 0, 1 << 20)) {}

Order ProgramPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  Arrangement arrangement(graph);
  std::vector<TaskId> anchors;
  if (depth_ >= 0) anchors = anchor_gathers(graph, static_cast<std::size_t>(depth_), arrangement);
  Order order = program_order(graph, options, arrangement.sequence());
  if (depth_ < 0) return order;
  const auto reason = static_cast<std::uint32_t>(order.reasons.size());
  order.reasons.push_back({.kind = ReasonKind::gathered_no_earlier, .numbers = {static_cast<std::uint64_t>(depth_)}});
  EdgeAdder edges(order);
  for (Placement& placement : order.sequence) {
    const TaskId anchor = anchors[placement.task.index()];
    if (!anchor.valid() || !edges.add(anchor, placement.task, EdgeKind::issued_before)) continue;
    placement.reason = reason;
  }
  return order;
}

}  // namespace weft
