#include "runtime/policy/scheduling/timetable.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
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

bool RunningLanes::contends() const {
  return std::ranges::any_of(loads_, &time::ClassLoads::contends);
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

Timetable timetable_of(const ClassTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options) {
  const std::size_t size = tasks.size(), lanes = tasks.lanes().size();
  Timetable table{std::vector<double>(size, 0), std::vector<double>(size, 0), 0};
  const NodeEdges edges(size, edges_of(tasks, orders));
  std::vector<std::uint32_t> missing = edges.missing();
  std::vector<std::vector<std::uint32_t>> queues(lanes);
  std::size_t left = 0;
  for (std::size_t k = 0; k < tasks.classes(); ++k) {
    for (const plan::Placement& placement : orders[k].sequence) {
      const std::uint32_t number = tasks.first(k) + placement.task.value;
      if (!tasks.is_node(number)) continue;
      queues[tasks.lane_of(k, placement.stream)].push_back(number);
      ++left;
    }
  }
  RunningLanes running(tasks, options);
  std::vector<std::size_t> next(lanes, 0);
  while (left > 0) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (!running.idle(lane) || next[lane] == queues[lane].size() || missing[queues[lane][next[lane]]] > 0) continue;
      const std::uint32_t node = queues[lane][next[lane]++];
      table.start[node] = running.now();
      running.start(lane, node);
    }
    running.settle();
    if (running.next() == RunningLanes::kNever) throw std::logic_error("an order deadlocks");
    running.end_next([&](std::size_t, std::uint32_t node) {
      table.finish[node] = running.now();
      --left;
      for (const std::uint32_t after : edges.after(node)) --missing[after];
    });
  }
  table.makespan = running.now();
  for (std::uint32_t number = 0; number < size; ++number) {
    table.start[number] = table.start[tasks.node_of(number)];
    table.finish[number] = table.finish[tasks.node_of(number)];
  }
  return table;
}

Timetable timetable_of(graph::Classes classes, std::span<const plan::Order> orders,
                       std::span<const cost::TaskCosts> costs, const PolicyOptions& options) {
  return timetable_of(ClassTasks(classes, costs, orders), orders, options);
}

}  // namespace weft::policy
