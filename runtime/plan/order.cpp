#include "runtime/plan/order.h"

#include <algorithm>

#include "base/error.h"

namespace weft::plan {

std::vector<Stream> streams_of(const graph::Graph& graph, int compute_streams) {
  if (compute_streams < 1) {
    throw UserError(std::to_string(compute_streams) + " compute streams", "at least 1", "ask for 1 or 2");
  }
  std::vector<Stream> streams;
  for (int i = 0; i < compute_streams; ++i) {
    streams.push_back({.name = "compute" + std::to_string(i), .compute = true, .channel = graph::Channel::world});
  }
  std::vector<bool> used(graph.channel_count());
  for (const graph::Task& task : graph.tasks()) {
    if (const graph::Channel* channel = graph::channel_of(task.operation))
      used[static_cast<std::size_t>(*channel)] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    const auto channel = static_cast<graph::Channel>(i);
    if (used[i])
      streams.push_back({.name = std::string(graph.channel_name(channel)), .compute = false, .channel = channel});
  }
  return streams;
}

StreamId stream_of_channel(std::span<const Stream> streams, graph::Channel channel) {
  const auto found = std::ranges::find_if(streams, [&](const Stream& s) { return !s.compute && s.channel == channel; });
  return found == streams.end() ? StreamId() : StreamId(static_cast<std::size_t>(found - streams.begin()));
}

}  // namespace weft::plan
