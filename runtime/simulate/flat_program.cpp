#include "runtime/simulate/flat_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "graph/grid.h"

namespace weft::simulate {

FlatProgram::FlatProgram(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                         const cost::Machine& machine, std::span<const int> link_of_channel) {
  std::map<int, std::size_t> dense;
  classes_.reserve(plans.size());
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const plan::Plan& plan = *plans[k];
    FlatClass& one = classes_.emplace_back(plan, machine);
    for (const plan::StreamPlan& stream : plan.streams) {
      FlatStream flat;
      flat.compute = stream.stream.compute;
      if (flat.compute) {
        ++one.compute_streams;
      } else {
        flat.channel = stream.stream.channel;
        flat.local = plan.graph->is_local(flat.channel);
        const int link = link_of_channel[static_cast<std::size_t>(flat.channel)];
        flat.link = dense.emplace(link, dense.size()).first->second;
        if (plans.size() > 1 && graph::is_message(flat.channel)) {
          has_messages_ = true;
          flat.sends = flat.channel == graph::Channel::send_next || flat.channel == graph::Channel::send_previous;
          flat.receives = !flat.sends;
        }
      }
      add_entries(costs[k], machine, stream, one, flat);
      one.streams.push_back(std::move(flat));
    }
  }
  links_ = dense.size();
  if (has_messages_) pair_messages(costs, machine);
}

std::size_t FlatProgram::stream_of(std::size_t class_index, graph::Channel channel) const {
  const std::vector<FlatStream>& streams = classes_[class_index].streams;
  const auto found =
      std::ranges::find_if(streams, [&](const FlatStream& s) { return !s.compute && s.channel == channel; });
  return static_cast<std::size_t>(found - streams.begin());
}

void FlatProgram::add_entries(const cost::TaskCosts& costs, const cost::Machine& machine,
                              const plan::StreamPlan& stream, const FlatClass& one, FlatStream& flat) {
  for (const plan::Entry& entry : stream.entries) {
    const std::size_t task = entry.task.index();
    const auto first = static_cast<std::uint32_t>(waits_.size());
    for (const plan::Wait& wait : entry.waits) {
      if (wait.distance == 0) waits_.push_back({static_cast<std::uint32_t>(wait.stream.index()), wait.entry});
    }
    const double ns = costs.ns[task];
    const double cpu = machine.shared_cores && ns > 0 ? costs.cpu_ns[task] / ns : 0;
    flat.entries.push_back({static_cast<std::uint32_t>(task), first, static_cast<std::uint32_t>(waits_.size()) - first,
                            one.slowdowns.kind(task), ns, cpu});
    if (!costs.beside_ns.empty() && costs.beside_ns[task] > ns) flat.entries.back().beside = ns / costs.beside_ns[task];
    if (ns > 0) flat.entries.back().use = std::min(1.0, costs.on_link()[task] / ns);
  }
}

void FlatProgram::pair_messages(std::span<const cost::TaskCosts> costs, const cost::Machine& machine) {
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
        FlatEntry& receive = classes_[peer].streams[to].entries[i];
        receive.use = sends[i].use;
        receive.beside = sends[i].beside;
        receive.cpu = machine.shared_cores && sends[i].ns > 0 ? costs[peer].cpu_ns[receive.task] / sends[i].ns : 0;
      }
    }
  }
}

}  // namespace weft::simulate
