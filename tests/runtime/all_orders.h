// All topological orders of a small graph, for tests that find the best by trying each.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/order.h"

namespace weft::testing {

/// Calls visit(span of TaskId) for each.
template <class Visit>
void for_each_sequence(const graph::Graph& graph, const Visit& visit) {
  std::vector<graph::TaskId> sequence;
  std::vector<char> placed(graph.tasks().size(), 0);
  const std::function<void()> extend = [&] {
    if (sequence.size() == placed.size()) visit(std::span<const graph::TaskId>(sequence));
    for (std::size_t task = 0; task < placed.size(); ++task) {
      const auto missing = [&](const graph::Edge& edge) {
        return edge.distance == 0 && placed[edge.from.index()] == 0;
      };
      if (placed[task] != 0 || std::ranges::any_of(graph.in_edges(graph::TaskId(task)), missing)) continue;
      placed[task] = 1;
      sequence.emplace_back(task);
      extend();
      sequence.pop_back();
      placed[task] = 0;
    }
  };
  extend();
}

/// The least value(order) of all orders on one compute stream.
template <class Value>
double least_of_all_orders(const graph::Graph& graph, const Value& value) {
  plan::Order order;
  order.streams = plan::streams_of(graph, 1);
  order.reasons = {{.text = ""}};
  double least = std::numeric_limits<double>::infinity();
  for_each_sequence(graph, [&](std::span<const graph::TaskId> sequence) {
    order.sequence.clear();
    for (const graph::TaskId task : sequence) {
      const graph::Channel* channel = graph::channel_of(graph.task(task).operation);
      const plan::StreamId compute(std::size_t{0});
      order.sequence.push_back(
          {task, channel == nullptr ? compute : plan::stream_of_channel(order.streams, *channel), 0});
    }
    least = std::min(least, value(order));
  });
  return least;
}

}  // namespace weft::testing
