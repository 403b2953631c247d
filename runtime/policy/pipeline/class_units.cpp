#include "runtime/policy/pipeline/class_units.h"

#include <algorithm>
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
    return std::ranges::any_of(graph_.out_edges(id), [&](std::uint32_t index) {
      const graph::Edge& edge = graph_.edges()[index];
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

ClassUnits::ClassUnits(const graph::Graph& graph, const PipelineShape& shape)
    : micro_batches_(shape.micro_batches), stages_(shape.stages()) {
  const InputGradients input(graph);
  const auto tasks = graph.tasks();
  std::vector<char> divided(index(Work::input, 0, 0), 0);  // by backward pass: does a gradient leave it?
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (input.of(i)) divided[index(Work::forward, tasks[i].micro_batch, tasks[i].stage)] = 1;
  }
  constexpr std::size_t kNone = SIZE_MAX;
  const auto unit_of = [&](std::size_t i) {
    const graph::Task& task = tasks[i];
    if (!in_unit(task)) return kNone;
    Work work = Work::forward;
    if (task.phase == graph::Phase::backward) {
      const bool all = divided[index(Work::forward, task.micro_batch, task.stage)] == 0;
      work = all || input.of(i) ? Work::input : Work::weight;
    }
    return index(work, task.micro_batch, task.stage);
  };
  begin_.assign(index(Work::backward, 0, 0) + 1, 0);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (const std::size_t unit = unit_of(i); unit != kNone) {
      ++begin_[unit + 1];
    } else {
      (tasks_.empty() ? first_ : last_).emplace_back(i);
      continue;
    }
    if (tasks_.empty()) tasks_.resize(tasks.size());
  }
  for (std::size_t unit = 1; unit < begin_.size(); ++unit) begin_[unit] += begin_[unit - 1];
  tasks_.resize(begin_.back());
  std::vector<std::uint32_t> next = begin_;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (const std::size_t unit = unit_of(i); unit != kNone) tasks_[next[unit]++] = graph::TaskId(i);
  }
}

std::size_t ClassUnits::index(Work work, std::int32_t micro_batch, std::int32_t stage) const {
  const auto all = static_cast<std::size_t>(micro_batches_);
  return (static_cast<std::size_t>(work) * all + static_cast<std::size_t>(micro_batch)) *
             static_cast<std::size_t>(stages_) +
         static_cast<std::size_t>(stage);
}

std::span<const graph::TaskId> ClassUnits::tasks_of(const Unit& unit) const {
  const std::size_t i = index(unit.work, unit.micro_batch, unit.stage);
  return std::span(tasks_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
}

}  // namespace weft::policy
