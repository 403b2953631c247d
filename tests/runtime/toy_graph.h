// Small graphs written by hand: a line a task, named, with accesses only. What the tasks would compute doesn't matter
// to plans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/plan.h"

namespace weft::testing {

///   ToyGraph toy;
///   const View x = toy.tensor("x", 64);
///   toy.compute("a", {write(x)});
///   toy.collective("b", Channel::data, {read_write(x)});
///   const auto graph = toy.build();
class ToyGraph {
 public:
  /// The whole of a new f32 tensor of `elements`.
  View tensor(std::string name, std::int64_t elements, Role role = Role::activation) {
    return whole(builder_, builder_.add_tensor({std::move(name), DType::f32, {elements}, role}));
  }
  TaskId compute(std::string name, std::vector<Access> accesses) {
    return builder_.add_task({std::move(name), Add{1}, std::move(accesses)});
  }
  TaskId collective(std::string name, Channel channel, std::vector<Access> accesses, std::int64_t count = 1) {
    return builder_.add_task({std::move(name), AllReduce{channel, 2, count}, std::move(accesses)});
  }
  TaskId add(Task task) { return builder_.add_task(std::move(task)); }
  std::shared_ptr<const Graph> build() { return std::make_shared<const Graph>(std::move(builder_).build()); }

 private:
  GraphBuilder builder_{Arguments::of_any_form};
};

/// Tasks in the given order of names, each on the named stream: {{"a", "compute0"}, {"b", "data"}, …}.
inline Order order_of(const Graph& graph, int compute_streams,
                      const std::vector<std::pair<std::string, std::string>>& tasks) {
  Order order;
  order.streams = streams_of(graph, compute_streams);
  order.reasons = {parse_reason("as the test says")};
  for (const auto& [task, stream_name] : tasks) {
    std::size_t stream = 0;
    while (stream < order.streams.size() && order.streams[stream].name != stream_name) ++stream;
    order.sequence.push_back({graph.find_task(task), StreamId(stream), 0});
  }
  return order;
}

/// The entry of a task, by name.
inline const Entry& entry_of(const Plan& plan, const std::string& task) {
  const Position at = plan.position[plan.graph->find_task(task).index()];
  return plan.streams[at.stream.index()].entries[at.entry];
}

/// The waits of a task as "stream:task" or, for the step before, "stream:task'".
inline std::vector<std::string> waits_of(const Plan& plan, const std::string& task) {
  std::vector<std::string> waits;
  for (const Wait& wait : entry_of(plan, task).waits) {
    const StreamPlan& stream = plan.streams[wait.stream.index()];
    waits.push_back(stream.stream.name + ":" + plan.graph->task(stream.entries[wait.entry].task).name +
                    (wait.distance == 0 ? "" : "'"));
  }
  return waits;
}

}  // namespace weft::testing
