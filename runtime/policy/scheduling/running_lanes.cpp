#include "runtime/policy/scheduling/running_lanes.h"

#include <algorithm>
#include <limits>

namespace weft::policy {

RunningLanes::RunningLanes(const ClassTasks& tasks, const PolicyOptions& options)
    : tasks_(tasks), lanes_(tasks.lanes().size()) {
  for (std::size_t k = 0; k < tasks.classes(); ++k) {
    classes_.push_back({RunningTasks(tasks.graph(k), tasks.costs()[k], options, tasks.streams(k)),
                        std::vector<std::uint32_t>(tasks.streams(k).size(), 0)});
  }
  reset();
}

void RunningLanes::reset() {
  std::ranges::fill(lanes_, Lane());
  for (Class& each : classes_) {
    each.running.reset();
    each.changed = true;
  }
}

double RunningLanes::finish(std::size_t lane) const {
  double last = 0;
  for (const graph::ClassTask& member : tasks_.members(lanes_[lane].node)) {
    const RunningTasks& running = classes_[member.of_class].running;
    const std::size_t stream = tasks_.stream_on(lane, member);
    if (!running.idle(stream)) last = std::max(last, running.finish(stream));
  }
  return last;
}

void RunningLanes::start(std::size_t lane, std::uint32_t node, double now) {
  const std::span<const graph::ClassTask> members = tasks_.members(node);
  lanes_[lane] = {node, static_cast<std::uint32_t>(members.size())};
  for (const graph::ClassTask& member : members) {
    Class& each = classes_[member.of_class];
    const std::size_t stream = tasks_.stream_on(lane, member);
    each.running.start(stream, member.task, now);
    each.lane_of_stream[stream] = static_cast<std::uint32_t>(lane);
    each.changed = true;
  }
}

void RunningLanes::settle(double now) {
  for (Class& each : classes_) {
    if (!each.changed) continue;
    each.running.settle(now);
    each.next = each.running.next();
    each.changed = false;
  }
}

double RunningLanes::next() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Class& each : classes_) next = std::min(next, each.next);
  return next;
}

}  // namespace weft::policy
