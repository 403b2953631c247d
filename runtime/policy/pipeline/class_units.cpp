#include "runtime/policy/pipeline/class_units.h"

#include <algorithm>
#include <numeric>
#include <variant>

namespace weft::policy {
namespace {

bool in_unit(const graph::Task& task) {
  return task.stage >= 0 && task.micro_batch >= 0 && task.phase != graph::Phase::update;
}

bool is_embedding_gradient(const graph::Task& task) {
  return std::holds_alternative<graph::EmbeddingBackward>(task.operation) ||
         std::holds_alternative<graph::PositionBackward>(task.operation);
}

bool same_unit(const graph::Task& a, const graph::Task& b) {
  return a.stage == b.stage && a.micro_batch == b.micro_batch && a.phase == b.phase;
}

/// Of the backward tasks, whether another stage waits for them. Tasks are visited after all that depend on them.
class InputGradients {
 public:
  explicit InputGradients(const graph::Graph& graph) : graph_(graph), leads_out_(graph.tasks().size(), 0) {
    for (std::size_t i = graph.tasks().size(); i-- > 0;) visit(graph::TaskId(i));
  }
  bool of(std::size_t task) const { return leads_out_[task] != 0; }

 private:
  void visit(graph::TaskId id) {
    const graph::Task& task = graph_.task(id);
    if (!in_unit(task) || task.phase != graph::Phase::backward) return;
    if (leads_out_[id.index()] == 0 && leads_out(id, task)) leads_out_[id.index()] = 1;
    if (task.stage != 0 || !is_embedding_gradient(task)) return;
    for (const graph::Edge& edge : graph_.in_edges(id)) {
      const bool data = edge.distance == 0 && edge.reason == graph::EdgeReason::read_after_write;
      if (data && same_unit(graph_.task(edge.from), task)) leads_out_[edge.from.index()] = 1;
    }
  }

  bool leads_out(graph::TaskId id, const graph::Task& task) const {
    if (std::holds_alternative<graph::Send>(task.operation)) return true;
    return std::ranges::any_of(graph_.out_edges(id), [&](const graph::Edge& edge) {
      if (edge.distance != 0) return false;
      const graph::Task& next = graph_.task(edge.to);
      if (same_unit(next, task)) return leads_out_[edge.to.index()] != 0;
      // The previous stage may be on this rank.
      return edge.reason == graph::EdgeReason::read_after_write && in_unit(next) &&
             next.phase == graph::Phase::backward && next.micro_batch == task.micro_batch && next.stage != task.stage;
    });
  }

  const graph::Graph& graph_;
  std::vector<char> leads_out_;
};

}  // namespace

ClassUnits::ClassUnits(const graph::Graph& graph, const PipelineShape& shape) : shape_(shape) {
  const InputGradients input(graph);
  const auto tasks = graph.tasks();
  const auto forward_of = [&](const graph::Task& task) {
    return shape.id({Work::forward, task.micro_batch, task.stage});
  };
  std::vector<char> divided(shape.units(), 0);  // by forward pass: does a gradient leave its backward pass?
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (input.of(i)) divided[forward_of(tasks[i])] = 1;
  }
  constexpr UnitId kNone = UINT32_MAX;
  std::vector<UnitId> unit_of(tasks.size(), kNone);
  begin_.assign(shape.units() + 1, 0);
  bool any = false;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const graph::Task& task = tasks[i];
    if (!in_unit(task)) {
      (any ? last_ : first_).emplace_back(i);
      continue;
    }
    any = true;
    Work work = Work::forward;
    if (task.phase == graph::Phase::backward)
      work = divided[forward_of(task)] == 0 || input.of(i) ? Work::input : Work::weight;
    unit_of[i] = shape.id({work, task.micro_batch, task.stage});
    ++begin_[unit_of[i] + 1];
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  tasks_.resize(begin_.back());
  std::vector<std::uint32_t> next = begin_;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (unit_of[i] != kNone) tasks_[next[unit_of[i]]++] = graph::TaskId(i);
  }
}

}  // namespace weft::policy
