// Small graphs of all-reduces over two ranks, and what tests ask of the graphs that rewrites make of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/cpu/cpu_weight_layouts.h"
#include "runtime/plan/rewrite.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

class ReductionToy : public ToyGraph {
 public:
  /// An all-reduce of the whole tensor with a workspace of its own.
  TaskId reduce(const std::string& name, const View& x, Channel channel = Channel::data) {
    const std::int64_t n = x.elements(), work = all_reduce_workspace(n, 2);
    const View workspace = tensor(name + ".workspace", work, Role::workspace);
    return add({name, AllReduce{channel, 2, n}, {read_write({x.tensor, 0, 1, n, n}), write(workspace)}});
  }
};

inline std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Task& task : graph.tasks()) names.push_back(task.name);
  return names;
}

inline const Task& task_of(const Graph& graph, const std::string& name) {
  const TaskId id = graph.find_task(name);
  EXPECT_TRUE(id.valid()) << name;
  return graph.task(id.valid() ? id : TaskId(0));
}

/// The tensor and first element of an access: "g0.bucket+16".
inline std::string place_of(const Graph& graph, const std::string& task, std::size_t access) {
  const View& view = task_of(graph, task).accesses.at(access).view;
  return graph.tensor(view.tensor).name + "+" + std::to_string(view.offset);
}

/// The tasks that a task waits for within the step.
inline std::vector<std::string> waits_for(const Graph& graph, const std::string& task) {
  std::vector<std::string> names;
  for (const Edge& edge : graph.in_edges(graph.find_task(task))) {
    if (edge.distance == 0) names.push_back(graph.task(edge.from).name);
  }
  return names;
}

inline std::shared_ptr<const Graph> rewritten(const std::shared_ptr<const Graph>& graph, const std::string& rewrites) {
  return rewrite(graph, parse_rewrites(rewrites), &cpu_weight_layouts());
}

}  // namespace weft::testing
