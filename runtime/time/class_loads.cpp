#include "runtime/time/class_loads.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/operations/collectives.h"

namespace weft::time {

KindSlowdowns::KindSlowdowns(const graph::Graph& graph, const cost::Machine* machine) : kind_(graph.tasks().size()) {
  std::vector<std::string_view> names;
  for (const bool collectives : {true, false}) {
    std::map<std::string_view, std::uint32_t> numbers;
    for (std::size_t i = 0; i < kind_.size(); ++i) {
      const graph::Operation& operation = graph.tasks()[i].operation;
      if (graph::is_collective(operation) != collectives) continue;
      const auto [found, is_new] =
          numbers.emplace(graph::kind_name(operation), static_cast<std::uint32_t>(names.size()));
      if (is_new) names.push_back(found->first);
      kind_[i] = found->second;
    }
    if (collectives) collectives_ = names.size();
  }
  if (machine == nullptr || machine->slowdowns.empty()) return;
  for (const std::string_view name : names) {
    for (std::size_t c = 0; c < collectives_; ++c) factors_.push_back(machine->slowdown(name, names[c]));
  }
  if (std::ranges::all_of(factors_, [](double factor) { return factor == 1; })) factors_.clear();
}

double LinkShares::level_of(const std::vector<double>& uses) {
  // Whoever needs less than an equal share of the link leaves the rest to the others, whose equal share grows.
  double level = 0;
  for (bool grew = true; grew;) {
    double needed = 0;
    std::size_t greedy = 0;
    for (const double use : uses) {
      if (use <= level) {
        needed += use;
      } else {
        ++greedy;
      }
    }
    if (greedy == 0) return 1;
    const double next = (1 - needed) / static_cast<double>(greedy);
    grew = next > level;
    if (grew) level = next;
  }
  return level;
}

ClassLoads::ClassLoads(const graph::Graph& graph, std::span<const plan::Stream> of_streams,
                       const cost::TaskCosts& costs, const cost::Machine* machine,
                       const std::vector<int>& link_of_channel, bool directions)
    : tasks(costs.ns.size()),
      slowdowns(graph, machine),
      shared_cores(machine != nullptr && machine->shared_cores),
      contends(shared_cores || !slowdowns.none()) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    TaskLoad& task = tasks[i];
    task.ns = costs.ns[i];
    task.kind = slowdowns.kind(i);
    if (task.ns <= 0) continue;
    if (shared_cores) task.cores = costs.cpu_ns[i] / task.ns;
    task.use = std::min(1.0, costs.on_link()[i] / task.ns);
    if (costs.beside_ns.empty() || costs.beside_ns[i] <= task.ns) continue;
    task.beside = task.ns / costs.beside_ns[i];
    contends = true;
  }
  std::map<int, std::uint32_t> dense;
  for (const plan::Stream& stream : of_streams) {
    StreamLoad& load = streams.emplace_back();
    load.compute = stream.compute;
    if (stream.compute) {
      ++compute_streams;
      continue;
    }
    load.local = graph.is_local(stream.channel);
    const auto channel = static_cast<std::size_t>(stream.channel);
    const int link = link_of_channel.empty() ? static_cast<int>(channel) : link_of_channel.at(channel);
    load.link = dense.emplace(link, static_cast<std::uint32_t>(dense.size())).first->second;
    const graph::Direction direction = graph.direction(stream.channel);
    if (!directions || direction == graph::Direction::both) continue;
    has_messages = true;
    load.sends = direction == graph::Direction::out;
    load.receives = !load.sends;
  }
  links = dense.size();
  contends = contends || links < streams.size() - compute_streams;
}

void ClassLoads::receive(std::size_t task, const TaskLoad& send, double cpu_ns) {
  tasks[task].use = send.use;
  tasks[task].beside = send.beside;
  tasks[task].cores = shared_cores && send.ns > 0 ? cpu_ns / send.ns : 0;
  contends = contends || send.beside < 1;
}

}  // namespace weft::time
