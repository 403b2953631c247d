#include "runtime/simulate/order_move.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

  /// Moves what leads to `task` along. False if `anchor` leads to it.
  bool before(graph::TaskId task, graph::TaskId anchor) {
    const std::size_t first = place(anchor), last = place(task);
    if (last <= first) return true;
    std::vector<bool> goes(place_.size(), false);
    goes[task.index()] = true;
    for (std::size_t at = last + 1; at-- > first;) {
      const graph::TaskId each = order_.sequence[at].task;
      if (!goes[each.index()]) continue;
      for (const graph::Edge& edge : graph_.in_edges(each)) {
        if (edge.distance == 0) goes[edge.from.index()] = true;
      }
    }
    if (goes[anchor.index()]) return false;
    std::stable_partition(at(first), at(last + 1), [&](const plan::Placement& p) { return goes[p.task.index()]; });
    number(first, last + 1);
    return true;
  }

  /// Moves what needs `task` along. False if `anchor` needs it.
  bool after(graph::TaskId task, graph::TaskId anchor) {
    const std::size_t first = place(task), last = place(anchor);
    if (last <= first) return true;
    std::vector<bool> goes(place_.size(), false);
    goes[task.index()] = true;
    for (std::size_t at = first; at <= last; ++at) {
      const graph::TaskId each = order_.sequence[at].task;
      if (!goes[each.index()]) continue;
      for (const std::uint32_t index : graph_.out_edges(each)) {
        const graph::Edge& edge = graph_.edges()[index];
        if (edge.distance == 0) goes[edge.to.index()] = true;
      }
    }
    if (goes[anchor.index()]) return false;
    std::stable_partition(at(first), at(last + 1), [&](const plan::Placement& p) { return !goes[p.task.index()]; });
    number(first, last + 1);
    return true;
  }

  void release(graph::TaskId task) {
    std::erase_if(order_.added_edges, [&](const graph::Edge& e) { return e.to == task && e.distance == 0; });
  }

  void wait(graph::TaskId task, graph::TaskId anchor) {
    order_.added_edges.push_back(
        {anchor, task, graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
  }

  void detach(graph::TaskId task) {
    const std::vector<bool> needs = descendants(graph_, task);
    std::erase_if(order_.added_edges, [&](const graph::Edge& edge) {
      return edge.from == task && edge.distance == 0 && !needs[edge.to.index()];
    });
  }

  void drop_edges_against_the_sequence() {
    std::erase_if(order_.added_edges,
                  [&](const graph::Edge& edge) { return edge.distance == 0 && place(edge.from) >= place(edge.to); });
  }

 private:
  std::size_t place(graph::TaskId task) const { return place_[task.index()]; }
  std::vector<plan::Placement>::iterator at(std::size_t place) {
    return order_.sequence.begin() + static_cast<std::ptrdiff_t>(place);
  }
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
    switch (move.kind) {
      case MoveKind::before:
        if (!reordering.before(move.task, move.anchor)) {
          return fmt::format("{} needs {}", graph.task(move.task).name, graph.task(move.anchor).name);
        }
        break;
      case MoveKind::after:
        if (!reordering.after(move.task, move.anchor)) {
          return fmt::format("{} needs {}", graph.task(move.anchor).name, graph.task(move.task).name);
        }
        break;
      case MoveKind::release:
        reordering.release(move.task);
        break;
      case MoveKind::wait:
        reordering.wait(move.task, move.anchor);
        break;
      case MoveKind::detach:
        reordering.detach(move.task);
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
