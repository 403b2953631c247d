#include "runtime/policy/scheduling/running_lanes.h"

#include <algorithm>
#include <variant>

namespace weft::policy {

namespace {

std::vector<time::ClassLoads> loads_of_classes(const ClassTasks& tasks, const PolicyOptions& options) {
  std::vector<time::ClassLoads> loads;
  for (std::size_t k = 0; k < tasks.classes(); ++k) {
    loads.emplace_back(tasks.graph(k), tasks.streams(k), tasks.costs()[k], options.machine.get(),
                       options.link_of_channel, true);
  }
  for (std::uint32_t node = 0; tasks.classes() > 1 && node < tasks.size(); ++node) {
    if (!tasks.is_node(node)) continue;
    const graph::ClassTask& send = tasks.members(node).front();
    for (const graph::ClassTask& member : tasks.members(node).subspan(1)) {
      const graph::Task& task = tasks.graph(member.of_class).tasks()[member.task];
      if (!std::holds_alternative<graph::Receive>(task.operation)) continue;
      loads[member.of_class].receive(member.task, loads[send.of_class].tasks[send.task],
                                     tasks.costs()[member.of_class].cpu_ns[member.task]);
    }
  }
  return loads;
}

}  // namespace

RunningLanes::RunningLanes(const ClassTasks& tasks, const PolicyOptions& options)
    : tasks_(tasks),
      loads_(loads_of_classes(tasks, options)),
      engine_(loads_, options.machine.get()),
      lanes_(tasks.lanes().size()),
      changed_(tasks.classes(), 0) {
  for (std::size_t k = 0; k < tasks.classes(); ++k) {
    for (std::size_t s = 0; s < tasks.streams(k).size(); ++s)
      lane_of_slot_.push_back(tasks.lane_of(k, plan::StreamId(s)));
  }
}

void RunningLanes::reset() {
  std::ranges::fill(lanes_, Lane());
  engine_.reset();
}

void RunningLanes::start(std::size_t lane, std::uint32_t node) {
  const std::span<const graph::ClassTask> members = tasks_.members(node);
  std::size_t slot = slot_on(lane, members.front());
  lanes_[lane] = {node, slot};
  engine_.start(slot, members.front().task, tasks_.cost(node));
  for (const graph::ClassTask& member : members.subspan(1)) {
    const std::size_t before = std::exchange(slot, slot_on(lane, member));
    engine_.join(slot, member.task, before);
  }
  for (const graph::ClassTask& member : members) changed_[member.of_class] = 1;
}

void RunningLanes::settle() {
  for (std::size_t k = 0; k < changed_.size(); ++k) {
    if (std::exchange(changed_[k], 0) != 0) engine_.settle(k);
  }
}

}  // namespace weft::policy
