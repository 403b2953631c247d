#include "runtime/simulate/flat_program.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "graph/grid.h"

namespace weft::simulate {

FlatProgram::FlatProgram(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                         const cost::Machine& machine, const std::vector<int>& link_of_channel) {
  classes_.reserve(plans.size());
  for (std::size_t k = 0; k < plans.size(); ++k) {
    std::vector<plan::Stream> streams;
    for (const plan::StreamPlan& stream : plans[k]->streams) streams.push_back(stream.stream);
    classes_.push_back({plans[k],
                        {*plans[k]->graph, streams, costs[k], &machine, link_of_channel, plans.size() > 1},
                        std::vector<FlatStream>(streams.size())});
    for (std::size_t s = 0; s < streams.size(); ++s) add_entries(plans[k]->streams[s], classes_[k].streams[s]);
  }
  if (plans.size() > 1) pair_messages(costs);
}

std::size_t FlatProgram::stream_of(std::size_t class_index, graph::Channel channel) const {
  const std::vector<FlatStream>& streams = classes_[class_index].streams;
  const std::span<const time::StreamLoad> loads = classes_[class_index].loads.streams();
  std::size_t stream = 0;
  while (stream < streams.size() && (loads[stream].compute || streams[stream].channel != channel)) ++stream;
  return stream;
}

void FlatProgram::add_entries(const plan::StreamPlan& stream, FlatStream& flat) {
  flat.channel = stream.stream.channel;
  for (const plan::Entry& entry : stream.entries) {
    const auto first = static_cast<std::uint32_t>(waits_.size());
    for (const plan::Wait& wait : entry.waits) {
      if (wait.distance == 0) waits_.push_back({static_cast<std::uint32_t>(wait.stream.index()), wait.entry});
    }
    flat.entries.push_back({entry.task.value, first, static_cast<std::uint32_t>(waits_.size()) - first});
  }
}

void FlatProgram::pair_messages(std::span<const cost::TaskCosts> costs) {
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    for (const graph::Channel channel : {graph::Channel::send_next, graph::Channel::send_previous}) {
      const auto peer = static_cast<std::size_t>(
          graph::peer_stage(channel, static_cast<std::int64_t>(k), static_cast<std::int64_t>(classes_.size())));
      const std::size_t from = stream_of(k, channel), to = stream_of(peer, graph::other_end(channel));
      static const std::vector<FlatEntry> none;
      const std::vector<FlatEntry>& sends =
          from < classes_[k].streams.size() ? classes_[k].streams[from].entries : none;
      if (to == classes_[peer].streams.size() && sends.empty()) continue;
      if (to == classes_[peer].streams.size() || classes_[peer].streams[to].entries.size() != sends.size()) {
        throw std::logic_error(fmt::format("stage {} sends {} messages on {}, and stage {} receives another number", k,
                                           sends.size(), graph::to_string(channel), peer));
      }
      for (std::size_t i = 0; i < sends.size(); ++i) {
        const std::uint32_t receive = classes_[peer].streams[to].entries[i].task;
        classes_[peer].loads.receive(receive, classes_[k].loads.task(sends[i].task), costs[peer].cpu_ns[receive]);
      }
    }
  }
}

}  // namespace weft::simulate
