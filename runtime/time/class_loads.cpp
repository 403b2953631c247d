#include "runtime/time/class_loads.h"

#include <algorithm>
#include <map>

#include "graph/operations/collectives.h"

namespace weft::time {

ClassLoads::ClassLoads(const graph::Graph& graph, std::span<const plan::Stream> streams, const cost::TaskCosts& costs,
                       const cost::Machine* machine, const std::vector<int>& link_of_channel, bool directions)
    : tasks_(costs.ns.size()),
      slowdowns_(graph, machine),
      shared_cores_(machine != nullptr && machine->shared_cores),
      contends_(shared_cores_ || !slowdowns_.none()) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    TaskLoad& task = tasks_[i];
    task.ns = costs.ns[i];
    task.kind = slowdowns_.kind(i);
    if (task.ns <= 0) continue;
    if (shared_cores_) task.cores = costs.cpu_ns[i] / task.ns;
    task.use = std::min(1.0, costs.on_link()[i] / task.ns);
    if (costs.beside_ns.empty() || costs.beside_ns[i] <= task.ns) continue;
    task.beside = task.ns / costs.beside_ns[i];
    contends_ = true;
  }
  std::map<int, std::uint32_t> dense;
  for (const plan::Stream& stream : streams) {
    StreamLoad& load = streams_.emplace_back();
    load.compute = stream.compute;
    if (stream.compute) {
      ++compute_streams_;
      continue;
    }
    load.local = graph.is_local(stream.channel);
    const auto channel = static_cast<std::size_t>(stream.channel);
    const int link = link_of_channel.empty() ? static_cast<int>(channel) : link_of_channel.at(channel);
    load.link = dense.emplace(link, static_cast<std::uint32_t>(dense.size())).first->second;
    if (!directions || !graph::is_message(stream.channel)) continue;
    has_messages_ = true;
    load.sends = stream.channel == graph::Channel::send_next || stream.channel == graph::Channel::send_previous;
    load.receives = !load.sends;
  }
  links_ = dense.size();
  contends_ = contends_ || links_ < streams_.size() - compute_streams_;
}

void ClassLoads::receive(std::size_t task, const TaskLoad& send, double cpu_ns) {
  tasks_[task].use = send.use;
  tasks_[task].beside = send.beside;
  tasks_[task].cores = shared_cores_ && send.ns > 0 ? cpu_ns / send.ns : 0;
  contends_ = contends_ || send.beside < 1;
}

}  // namespace weft::time
