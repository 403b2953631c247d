#include "runtime/simulate/flat_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "graph/grid.h"

namespace weft::simulate {

FlatProgram::FlatProgram(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                         const cost::Machine& machine, const std::vector<int>& link_of_channel) {
  for (std::size_t k = 0; k < plans.size(); ++k) {
    FlatClass& flat = classes_.emplace_back(FlatClass{plans[k], {}});
    std::vector<plan::Stream> streams;
    for (const plan::StreamPlan& stream : plans[k]->streams) {
      streams.push_back(stream.stream);
      add_entries(stream, flat.streams.emplace_back());
    }
    loads_.emplace_back(*plans[k]->graph, streams, costs[k], &machine, link_of_channel, plans.size() > 1);
  }
  // Opaque tasks that meet have equal times already.
  if (plans.size() > 1 && !plans.front()->graph->has_opaque_tasks()) pair_messages(costs);
}

std::size_t FlatProgram::stream_of(std::size_t class_index, graph::Channel channel) const {
  const std::vector<plan::StreamPlan>& streams = classes_[class_index].plan->streams;
  const auto found = std::ranges::find_if(
      streams, [&](const plan::StreamPlan& s) { return !s.stream.compute && s.stream.channel == channel; });
  return static_cast<std::size_t>(found - streams.begin());
}

void FlatProgram::add_entries(const plan::StreamPlan& stream, std::vector<FlatEntry>& flat) {
  for (const plan::Entry& entry : stream.entries) {
    const auto first = static_cast<std::uint32_t>(waits_.size());
    for (const plan::Wait& wait : entry.waits) {
      if (wait.distance == 0) waits_.push_back({static_cast<std::uint32_t>(wait.stream.index()), wait.entry});
    }
    flat.push_back({entry.task.value, first, static_cast<std::uint32_t>(waits_.size()) - first});
  }
}

void FlatProgram::pair_messages(std::span<const cost::TaskCosts> costs) {
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    for (const graph::Channel channel : {graph::Channel::send_next, graph::Channel::send_previous}) {
      const auto peer = static_cast<std::size_t>(
          graph::peer_stage(channel, static_cast<std::int64_t>(k), static_cast<std::int64_t>(classes_.size())));
      const std::size_t from = stream_of(k, channel), to = stream_of(peer, graph::other_end(channel));
      static const std::vector<FlatEntry> none;
      const std::vector<FlatEntry>& sends = from < classes_[k].streams.size() ? classes_[k].streams[from] : none;
      if (to == classes_[peer].streams.size() && sends.empty()) continue;
      if (to == classes_[peer].streams.size() || classes_[peer].streams[to].size() != sends.size()) {
        throw std::logic_error(fmt::format("stage {} sends {} messages on {}, and stage {} receives another number", k,
                                           sends.size(), graph::to_string(channel), peer));
      }
      for (std::size_t i = 0; i < sends.size(); ++i) {
        const std::uint32_t receive = classes_[peer].streams[to][i].task;
        loads_[peer].receive(receive, loads_[k].tasks[sends[i].task], costs[peer].cpu_ns[receive]);
      }
    }
  }
}

}  // namespace weft::simulate
