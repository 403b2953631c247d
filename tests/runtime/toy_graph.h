// Small graphs written by hand: a line a task, named, with accesses only. The tasks' computations don't matter to
// plans. And costs of tasks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::testing {

///   ToyGraph toy;
///   const View x = toy.tensor("x", 64);
///   toy.compute("a", {write(x)});
///   toy.collective("b", Channel::data, {read_write(x)});
///   const auto graph = toy.build();
class ToyGraph {
 public:
  /// The whole of a new f32 tensor of `elements`.
  graph::View tensor(std::string name, std::int64_t elements, graph::Role role = graph::Role::activation) {
    return graph::whole(builder_, builder_.add_tensor({std::move(name), DType::f32, {elements}, role}));
  }
  graph::TaskId compute(std::string name, std::vector<graph::Access> accesses) {
    return builder_.add_task({std::move(name), graph::Add{1}, std::move(accesses)});
  }
  graph::TaskId collective(std::string name, graph::Channel channel, std::vector<graph::Access> accesses,
                           std::int64_t count = 1) {
    return builder_.add_task({std::move(name), graph::AllReduce{channel, 2, count}, std::move(accesses)});
  }
  graph::TaskId add(graph::Task task) { return builder_.add_task(std::move(task)); }
  /// A task of a layer's pass over a micro-batch.
  graph::TaskId add(std::string name, graph::Operation operation, std::vector<graph::Access> accesses,
                    std::int32_t layer = -1, std::int32_t micro_batch = -1,
                    graph::Phase phase = graph::Phase::forward) {
    return add({std::move(name), std::move(operation), std::move(accesses), layer, micro_batch, phase});
  }
  std::shared_ptr<const graph::Graph> build() {
    return std::make_shared<const graph::Graph>(std::move(builder_).build());
  }

 private:
  graph::GraphBuilder builder_{graph::Arguments::of_any_form};
};

/// Tasks in the given order of names, each on the named stream: {{"a", "compute0"}, {"b", "data"}, …}.
inline plan::Order order_of(const graph::Graph& graph, int compute_streams,
                            const std::vector<std::pair<std::string, std::string>>& tasks) {
  plan::Order order;
  order.streams = plan::streams_of(graph, compute_streams);
  order.reasons = {{.text = "as the test says"}};
  for (const auto& [task, stream_name] : tasks) {
    std::size_t stream = 0;
    while (stream < order.streams.size() && order.streams[stream].name != stream_name) ++stream;
    order.sequence.push_back({graph.find_task(task), plan::StreamId(stream), 0});
  }
  return order;
}

/// Tasks in an order of their names: a collective on its channel's stream, a computation on the first compute stream or
/// on that of the number behind an @: "a c b@1". There are as many compute streams as these need.
inline plan::Order order_in(const graph::Graph& graph, const std::string& tasks) {
  std::vector<std::pair<std::string, std::string>> order;
  int compute_streams = 1;
  std::istringstream words(tasks);
  for (std::string name, stream; words >> name;) {
    const std::size_t at = std::min(name.find('@'), name.size());
    stream = at < name.size() ? name.substr(at + 1) : "0";
    name.resize(at);
    const graph::Channel* channel = graph::channel_of(graph.task(graph.find_task(name)).operation);
    if (channel == nullptr) compute_streams = std::max(compute_streams, 1 + std::stoi(stream));
    order.emplace_back(name, channel == nullptr ? "compute" + stream : std::string(graph.channel_name(*channel)));
  }
  return order_of(graph, compute_streams, order);
}

inline plan::Plan plan_in(const std::shared_ptr<const graph::Graph>& graph, const std::string& tasks) {
  return plan::make_plan(graph, order_in(*graph, tasks), "mine");
}

inline std::vector<std::string> names_of(const graph::Graph& graph, std::span<const graph::TaskId> tasks) {
  std::vector<std::string> names;
  for (const graph::TaskId task : tasks) names.push_back(graph.task(task).name);
  return names;
}

/// The entry of a task, by name.
inline const plan::Entry& entry_of(const plan::Plan& plan, const std::string& task) {
  const plan::Position at = plan.position[plan.graph->find_task(task).index()];
  return plan.streams[at.stream.index()].entries[at.entry];
}

/// The waits of a task as "stream:task" or, for the step before, "stream:task'".
inline std::vector<std::string> waits_of(const plan::Plan& plan, const std::string& task) {
  std::vector<std::string> waits;
  for (const plan::Wait& wait : entry_of(plan, task).waits) {
    const plan::StreamPlan& stream = plan.streams[wait.stream.index()];
    waits.push_back(stream.stream.name + ":" + plan.graph->task(stream.entries[wait.entry].task).name +
                    (wait.distance == 0 ? "" : "'"));
  }
  return waits;
}

/// Every edge, also a policy's and the memory planner's, within a step and from the step before.
inline void expect_order_in_time(const plan::Plan& plan, const std::vector<plan::StepTrace>& steps) {
  const auto time_of = [&](const plan::StepTrace& trace, graph::TaskId task) {
    const plan::Position at = plan.position[task.index()];
    return trace.times[at.stream.index()][at.entry];
  };
  const auto check = [&](const graph::Edge& edge) {
    for (std::size_t i = edge.distance; i < steps.size(); ++i) {
      ASSERT_LE(time_of(steps[i - edge.distance], edge.from).end, time_of(steps[i], edge.to).begin)
          << plan.graph->task(edge.from).name << " before " << plan.graph->task(edge.to).name;
    }
  };
  for (const graph::Edge& edge : plan.graph->edges()) check(edge);
  for (const graph::Edge& edge : plan.added_edges) check(edge);
  for (const plan::StepTrace& step : steps) {
    for (const auto& stream : step.times) {
      std::int64_t last = step.begin;
      for (const plan::TaskTime& time : stream) {
        ASSERT_LE(last, time.begin);
        ASSERT_LE(time.begin, time.end);
        last = time.end;
      }
      ASSERT_LE(last, step.end);
    }
  }
}

struct TaskPrice {
  double ns = 0;
  double cpu_ns = 0;  // that a transport takes from the cores
};

/// price(task) of every task, in program order. What the function changes in itself begins anew with each graph.
template <class Price>
class PricedTasks final : public cost::CostModel {
 public:
  explicit PricedTasks(Price price) : price_(std::move(price)) {}
  cost::TaskCosts costs(const graph::Graph& graph) const override {
    cost::TaskCosts costs;
    Price price = price_;
    for (const graph::Task& task : graph.tasks()) {
      const TaskPrice found = price(task);
      costs.ns.push_back(found.ns);
      costs.cpu_ns.push_back(found.cpu_ns);
    }
    return costs;
  }
  std::string source() const override { return "a test"; }

 private:
  Price price_;
};

template <class Price>
std::shared_ptr<const cost::CostModel> priced_tasks(Price price) {
  return std::make_shared<const PricedTasks<Price>>(std::move(price));
}

}  // namespace weft::testing
