// Small graphs of all-reduces over two ranks, and queries of the graphs that rewrites make of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "runtime/plan/rewrite.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

class ReductionToy : public ToyGraph {
 public:
  /// An all-reduce of the whole tensor with a workspace of its own.
  graph::TaskId reduce(const std::string& name, const graph::View& x, graph::Channel channel = graph::Channel::data,
                       graph::Phase phase = graph::Phase::forward) {
    const std::int64_t n = x.elements(), work = graph::all_reduce_workspace(n, 2);
    const graph::View workspace = tensor(name + ".workspace", work, graph::Role::workspace);
    return add(name, graph::AllReduce{channel, 2, n},
               {graph::read_write({x.tensor, 0, 1, n, n}), graph::write(workspace)}, -1, -1, phase);
  }
};

/// Gradients of these sizes, each of which is made and reduced, and all used at last. 16 elements are 64 bytes.
inline std::shared_ptr<const graph::Graph> gradients(const std::vector<std::int64_t>& sizes) {
  ReductionToy toy;
  std::vector<graph::View> views;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = "g" + std::to_string(i);
    views.push_back(toy.tensor(name, sizes[i], graph::Role::gradient));
    toy.compute("make" + std::to_string(i), {graph::write(views.back())});
    toy.reduce("reduce" + std::to_string(i), views.back());
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) toy.compute("use" + std::to_string(i), {graph::read(views[i])});
  return toy.build();
}

inline std::vector<std::string> names_of(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Task& task : graph.tasks()) names.push_back(task.name);
  return names;
}

inline const graph::Task& task_of(const graph::Graph& graph, const std::string& name) {
  const graph::TaskId id = graph.find_task(name);
  EXPECT_TRUE(id.valid()) << name;
  return graph.task(id.valid() ? id : graph::TaskId(0));
}

/// The tensor and first element of an access: "g0.bucket+16".
inline std::string place_of(const graph::Graph& graph, const std::string& task, std::size_t access) {
  const graph::View& view = task_of(graph, task).accesses.at(access).view;
  return graph.tensor(view.tensor).name + "+" + std::to_string(view.offset);
}

/// The tasks that a task waits for within the step.
inline std::vector<std::string> waits_for(const graph::Graph& graph, const std::string& task) {
  std::vector<std::string> names;
  for (const graph::Edge& edge : graph.in_edges(graph.find_task(task))) {
    if (edge.distance == 0) names.push_back(graph.task(edge.from).name);
  }
  return names;
}

inline std::shared_ptr<const graph::Graph> rewritten(const std::shared_ptr<const graph::Graph>& graph,
                                                     const std::string& rewrites) {
  return plan::rewrite(graph, plan::parse_rewrites(rewrites), &execute::cpu_weight_layouts());
}

}  // namespace weft::testing
