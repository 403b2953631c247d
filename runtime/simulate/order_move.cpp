#include "runtime/simulate/order_move.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {
namespace {

/// An order that is being changed.
class Reordering {
 public:
  Reordering(const graph::Graph& graph, plan::Order& order) : graph_(graph), order_(order) {
    place_.resize(order.sequence.size());
    number(0, place_.size());
  }

  /// With `earlier`, what leads to `task` goes along to before `anchor`; else what needs it, to after `anchor`. False
  /// if the one of the two that is to come second leads to the other.
  bool move(graph::TaskId task, graph::TaskId anchor, bool earlier) {
    const std::size_t first = place(earlier ? anchor : task), last = place(earlier ? task : anchor);
    if (last <= first) return true;
    std::vector<bool> goes(place_.size(), false);
    goes[task.index()] = true;
    for (std::size_t i = 0; i <= last - first; ++i) {
      const graph::TaskId each = order_.sequence[earlier ? last - i : first + i].task;
      if (!goes[each.index()]) continue;
      const auto along = [&](const graph::Edge& edge) {
        if (edge.distance == 0) goes[(earlier ? edge.from : edge.to).index()] = true;
      };
      if (earlier) std::ranges::for_each(graph_.in_edges(each), along);
      if (!earlier) {
        for (const std::uint32_t index : graph_.out_edges(each)) along(graph_.edges()[index]);
      }
    }
    if (goes[anchor.index()]) return false;
    const auto begin = order_.sequence.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_partition(begin, order_.sequence.begin() + static_cast<std::ptrdiff_t>(last + 1),
                          [&](const plan::Placement& p) { return goes[p.task.index()] == earlier; });
    number(first, last + 1);
    return true;
  }

  void drop_edges_against_the_sequence() {
    std::erase_if(order_.added_edges,
                  [&](const graph::Edge& edge) { return edge.distance == 0 && place(edge.from) >= place(edge.to); });
  }

 private:
  std::size_t place(graph::TaskId task) const { return place_[task.index()]; }
  void number(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) place_[order_.sequence[i].task.index()] = i;
  }

  const graph::Graph& graph_;
  plan::Order& order_;
  std::vector<std::size_t> place_;  // by task: its index in the sequence
};

}  // namespace

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

std::string apply(const graph::Graph& graph, const std::vector<OrderMove>& moves, plan::Order& order) {
  Reordering reordering(graph, order);
  for (const OrderMove& move : moves) {
    const auto drop_edges = [&](const auto& condition) {
      std::erase_if(order.added_edges, [&](const graph::Edge& edge) { return edge.distance == 0 && condition(edge); });
    };
    switch (move.kind) {
      case MoveKind::before:
      case MoveKind::after: {
        const bool earlier = move.kind == MoveKind::before;
        if (reordering.move(move.task, move.anchor, earlier)) break;
        return fmt::format("{} needs {}", graph.task(earlier ? move.task : move.anchor).name,
                           graph.task(earlier ? move.anchor : move.task).name);
      }
      case MoveKind::release:
        drop_edges([&](const graph::Edge& edge) { return edge.to == move.task; });
        break;
      case MoveKind::wait:
        order.added_edges.push_back({move.anchor, move.task, graph::EdgeKind::completes_before,
                                     graph::EdgeReason::policy, 0, graph::TensorId()});
        break;
      case MoveKind::detach:
        drop_edges([&, needs = descendants(graph, move.task)](const graph::Edge& edge) {
          return edge.from == move.task && !needs[edge.to.index()];
        });
        break;
    }
  }
  reordering.drop_edges_against_the_sequence();
  return "";
}

std::vector<OrderMove> translated(const std::vector<OrderMove>& moves, const graph::Graph& from, const graph::Graph& to,
                                  std::string& missing) {
  std::vector<OrderMove> result;
  const auto find = [&](graph::TaskId task) {
    if (!task.valid()) return task;
    const std::string& name = from.task(task).name;
    const graph::TaskId found = to.find_task(name);
    if (!found.valid() && missing.empty()) missing = name;
    return found;
  };
  for (const OrderMove& move : moves) result.push_back({move.kind, find(move.task), find(move.anchor)});
  return result;
}

}  // namespace weft::simulate
