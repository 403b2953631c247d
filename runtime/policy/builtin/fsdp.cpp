#include "runtime/policy/builtin/fsdp.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

struct Anchor {
  graph::TaskId task;  // the last computation of the unit that must be done; invalid: no unit
  std::optional<FsdpPolicy::Code> cause = {};
};

bool reduces_gradient(const graph::Task& task) {
  return task.phase == graph::Phase::backward &&
         (uses_channel(task, graph::Channel::z_scatter) || uses_channel(task, graph::Channel::expert_copies) ||
          uses_channel(task, graph::Channel::data));
}

}  // namespace

FsdpPolicy::FsdpPolicy(PolicyParameters& parameters)
    : post_(parameters.word("backward", "pre", {"pre", "post"}) == "post"),
      reshard_(parameters.truth("reshard", true)),
      forward_depth_(parameters.integer("forward-depth", 1, 0, 1 << 20)),
      backward_depth_(parameters.integer("backward-depth", 1, 0, 1 << 20)),
      max_gathered_(parameters.integer("max-gathered", 2, 1, 1 << 20)) {}

std::vector<plan::Rewrite> FsdpPolicy::rewrites(const graph::Graph& graph, const PolicyOptions&) const {
  const auto kept_for_backward = [&](const graph::Edge& edge) {
    return edge.distance == 0 && edge.reason == graph::EdgeReason::read_after_write &&
           is_gather(graph.task(edge.from)) && graph.task(edge.from).phase == graph::Phase::forward &&
           graph.task(edge.to).phase == graph::Phase::backward;
  };
  if (!reshard_ || std::ranges::none_of(graph.edges(), kept_for_backward)) return {};
  return {plan::ReshardAfterForward{}};
}

plan::Order FsdpPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  ReorderedProgram program(graph);
  std::vector<Anchor> anchors(graph.tasks().size());
  std::vector<graph::TaskId> last_of_unit;  // by unit: last computation up to its end
  std::int64_t done = -1;                   // the unit that the next gather waits for
  for (const Visit& visit : visits_of(graph)) {
    const auto unit = static_cast<std::int64_t>(last_of_unit.size());
    const bool backward = visit.phase == graph::Phase::backward, post = backward && post_;
    const std::int64_t ahead = unit - (backward ? backward_depth_ : forward_depth_) - (post ? 0 : 1);
    const std::int64_t limiter = unit - max_gathered_;
    last_of_unit.push_back(last_of_unit.empty() ? graph::TaskId() : last_of_unit.back());
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      const graph::Task& task = graph.tasks()[i];
      if (!graph::is_collective(task.operation)) last_of_unit.back() = graph::TaskId(i);
      if (reduces_gradient(task)) anchors[i].cause = kReducedAfter;
      if (!is_gather(task)) continue;
      done = std::max(done, std::min(unit - 1, std::max(ahead, limiter)));  // gathers stay in the order of units
      Code cause = post ? kGatheredAfter : kGatheredAhead;
      if (limiter > ahead) cause = kLimiter;
      anchors[i] = {done < 0 ? graph::TaskId() : last_of_unit[static_cast<std::size_t>(done)], cause};
      program.behind(graph::TaskId(i), anchors[i].task);
    }
  }
  plan::Order order = program_order(graph, options, program.sequence());
  const auto first = static_cast<std::uint32_t>(order.reasons.size());
  const auto forward = static_cast<std::uint64_t>(forward_depth_), back = static_cast<std::uint64_t>(backward_depth_);
  order.reasons.push_back({.table = &kReasons, .code = kGatheredAhead, .numbers = {forward, back}});
  order.reasons.push_back({.table = &kReasons, .code = kGatheredAfter, .numbers = {back}});
  order.reasons.push_back(
      {.table = &kReasons, .code = kLimiter, .numbers = {static_cast<std::uint64_t>(max_gathered_)}});
  order.reasons.push_back({.table = &kReasons, .code = kReducedAfter});
  EdgeAdder edges(order);
  for (plan::Placement& placement : order.sequence) {
    const Anchor& anchor = anchors[placement.task.index()];
    if (!anchor.cause) continue;
    placement.reason = first + *anchor.cause;
    edges.add(anchor.task, placement.task);
  }
  return order;
}

}  // namespace weft::policy
