#include "runtime/policy/builtin/random.h"

#include <limits>
#include <utility>

#include "runtime/policy/scheduling/random_numbers.h"

namespace weft::policy {

std::optional<std::uint64_t> seed_parameter(PolicyParameters& parameters) {
  const std::int64_t seed = parameters.integer("seed", -1, 0, std::numeric_limits<std::int64_t>::max());
  return seed < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(seed));
}

RandomPolicy::RandomPolicy(PolicyParameters& parameters) : seed_(seed_parameter(parameters)) {}

plan::Order RandomPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const std::uint64_t seed = seed_.value_or(options.seed);
  RandomNumbers numbers(seed);
  plan::Order order;
  order.streams = plan::streams_of(graph, options.compute_streams);
  order.reasons = {{.kind = plan::ReasonKind::drawn, .numbers = {seed}}};
  std::vector<std::uint32_t> missing(graph.tasks().size());
  for (const graph::Edge& edge : graph.edges()) {
    if (edge.distance == 0) ++missing[edge.to.index()];
  }
  std::vector<graph::TaskId> ready;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) ready.emplace_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[numbers.below(ready.size())], ready.back());
    const graph::TaskId task = ready.back();
    ready.pop_back();
    const graph::Channel* channel = graph::channel_of(graph.task(task).operation);
    const plan::StreamId stream =
        channel != nullptr ? plan::stream_of_channel(order.streams, *channel)
                           : plan::StreamId(numbers.below(static_cast<std::size_t>(options.compute_streams)));
    order.sequence.push_back({task, stream, 0});
    for (const std::uint32_t index : graph.out_edges(task)) {
      const graph::Edge& edge = graph.edges()[index];
      if (edge.distance == 0 && --missing[edge.to.index()] == 0) ready.push_back(edge.to);
    }
  }
  return order;
}

}  // namespace weft::policy
