#include "runtime/policy/builtin/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/analysis.h"
#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

const graph::Opaque* opaque_of(const graph::Task& task) {
  return std::get_if<graph::Opaque>(&task.operation);
}

std::vector<graph::TaskId> recorded_sequence(const graph::Graph& graph) {
  std::vector<double> priority;  // the earlier, the higher
  double begin = 0;
  for (const graph::Task& task : graph.tasks()) {
    if (const graph::Opaque* opaque = opaque_of(task); opaque != nullptr && opaque->begin_ns >= 0)
      begin = opaque->begin_ns;
    priority.push_back(-begin);
  }
  return graph::topological_order(graph, priority);
}

/// The compute streams by their recorded names, then those of channels.
std::vector<plan::Stream> plan_streams(const graph::Graph& graph, const std::vector<std::int32_t>& computing) {
  std::vector<plan::Stream> channels = plan::streams_of(graph, 1), streams;
  std::set<std::string> names;
  for (std::size_t i = 1; i < channels.size(); ++i) names.insert(channels[i].name);
  for (const std::int32_t stream : computing) {
    const std::string name =
        stream < 0 ? std::string("compute") : graph.stream_names()[static_cast<std::size_t>(stream)];
    plan::Stream& added = streams.emplace_back(channels.front());
    added.name = name;
    for (int i = 2; !names.insert(added.name).second; ++i) added.name = fmt::format("{} ({})", name, i);
  }
  streams.insert(streams.end(), channels.begin() + 1, channels.end());
  return streams;
}

plan::Order order_of(const graph::Graph& graph, const PolicyOptions& options) {
  const bool known = has_recorded_times(graph) ||
                     std::ranges::any_of(graph.tasks(), [](const graph::Task& t) { return recorded_stream(t) >= 0; });
  if (!known) {
    throw UserError("policy recorded: no task of this graph has a recorded stream or begin",
                    "a graph file with \"stream\" or \"begin_ns\"", "name another policy, such as program");
  }
  const std::vector<std::int32_t> computing = recorded_streams(graph);
  if (static_cast<std::size_t>(options.compute_streams) < computing.size()) {
    throw UserError(fmt::format("policy recorded: {} compute streams", options.compute_streams),
                    fmt::format("at least {}, on which computations ran", computing.size()),
                    fmt::format("--compute-streams {}", computing.size()));
  }
  plan::Order order;
  order.streams = plan_streams(graph, computing);
  order.reasons = {{.table = &RecordedPolicy::kReasons}};
  for (const graph::TaskId id : recorded_sequence(graph)) {
    const graph::Task& task = graph.task(id);
    const graph::Channel* channel = graph::channel_of(task.operation);
    const auto place = std::ranges::find(computing, recorded_stream(task)) - computing.begin();
    order.sequence.push_back({id,
                              channel != nullptr ? plan::stream_of_channel(order.streams, *channel)
                                                 : plan::StreamId(static_cast<std::size_t>(place)),
                              0});
  }
  EdgeAdder edges(order);
  std::vector<graph::TaskId> last(graph.stream_names().size());
  for (const plan::Placement& placement : order.sequence) {
    const std::int32_t stream = recorded_stream(graph.task(placement.task));
    if (stream < 0) continue;
    graph::TaskId& before = last[static_cast<std::size_t>(stream)];
    edges.add(std::exchange(before, placement.task), placement.task);
  }
  return order;
}

}  // namespace

bool has_recorded_times(const graph::Graph& graph) {
  return std::ranges::any_of(graph.tasks(), [](const graph::Task& task) {
    const graph::Opaque* opaque = opaque_of(task);
    return opaque != nullptr && opaque->begin_ns >= 0;
  });
}

int recorded_compute_streams(const graph::Graph& graph) {
  return static_cast<int>(recorded_streams(graph).size());
}

std::vector<plan::Order> RecordedPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<plan::Order> orders;
  for (const auto& graph : classes) orders.push_back(order_of(*graph, options));
  return joined_orders(classes, std::move(orders), options);
}

}  // namespace weft::policy
