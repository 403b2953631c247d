#include "runtime/plan/stream.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace weft {

std::vector<Stream> streams_of(const Graph& graph, int compute_streams) {
  if (compute_streams < 1) {
    throw UserError(std::to_string(compute_streams) + " compute streams", "at least 1", "ask for 1 or 2");
  }
  std::vector<Stream> streams;
  for (int i = 0; i < compute_streams; ++i) {
    streams.push_back({.name = "compute" + std::to_string(i), .compute = true, .channel = Channel::world});
  }
  constexpr std::array kChannels = {Channel::x,         Channel::y,    Channel::z_gather,
                                    Channel::z_scatter, Channel::data, Channel::world};
  std::array<bool, kChannels.size()> used{};
  for (const Task& task : graph.tasks()) {
    if (const Channel* channel = channel_of(task.operation)) used[static_cast<std::size_t>(*channel)] = true;
  }
  for (const Channel channel : kChannels) {
    if (!used[static_cast<std::size_t>(channel)]) continue;
    streams.push_back({.name = std::string(to_string(channel)), .compute = false, .channel = channel});
  }
  return streams;
}

StreamId stream_of_channel(std::span<const Stream> streams, Channel channel) {
  const auto found = std::ranges::find_if(streams, [&](const Stream& s) { return !s.compute && s.channel == channel; });
  return found == streams.end() ? StreamId() : StreamId(static_cast<std::size_t>(found - streams.begin()));
}

}  // namespace weft
