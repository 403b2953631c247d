#include "runtime/execute/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "graph/named_accesses.h"
#include "kernels/cpu/non_finite.h"

namespace weft::execute {
namespace {

/// The indices of an element, counted row-major: "[3, 17]".
std::string place(const graph::Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> indices(tensor.shape.size());
  for (std::size_t i = indices.size(); i-- > 0; element /= tensor.shape[i]) indices[i] = element % tensor.shape[i];
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

/// Where the number of rows stands that a task of groups writes; null of other tasks, which write all.
const std::int32_t* written_rows(const PlanMemory& memory, const plan::Plan& plan, const graph::Task& task) {
  const auto last_offset = [&]<class Op>(const Op&) -> const std::int32_t* {
    const graph::Access* const offsets = graph::NamedAccesses<Op>(task).find("offsets");
    if (offsets == nullptr) return nullptr;
    const cpu::Matrix table = memory.matrix(plan, offsets->view);
    return table.i32() + table.rows * table.cols - 1;
  };
  return std::visit(Overloaded{[&](const graph::GroupedGemm& op) { return last_offset(op); },
                               [&](const graph::SwiGluForward& op) { return last_offset(op); },
                               [&](const graph::SwiGluBackward& op) { return last_offset(op); },
                               [&](const graph::GeGluForward& op) { return last_offset(op); },
                               [&](const graph::GeGluBackward& op) { return last_offset(op); },
                               [](const auto&) -> const std::int32_t* { return nullptr; }},
                    task.operation);
}

/// Whether collectives carry rows that nobody wrote. What else they carry, the tasks before and after them tell.
bool has_unwritten_rows(const graph::Graph& graph) {
  return std::ranges::any_of(graph.tasks(), [](const graph::Task& task) {
    return std::holds_alternative<graph::ExchangeRows>(task.operation);
  });
}

/// Whether a result holds statistics of parts of a vocabulary: −∞ stands there for the logit of a target in another
/// part.
bool has_statistics(const graph::Graph& graph, const graph::Task& task, const graph::Access& access) {
  if (std::holds_alternative<graph::VocabStatistics>(task.operation)) return true;
  return graph::is_collective(task.operation) && std::ranges::any_of(graph.tasks(), [&](const graph::Task& reader) {
           if (!std::holds_alternative<graph::VocabCrossEntropy>(reader.operation)) return false;
           const graph::NamedAccesses<graph::VocabCrossEntropy> accesses(reader);
           return accesses["statistics"].view.tensor == access.view.tensor;
         });
}

}  // namespace

std::vector<CheckedResult> checked_results(const PlanMemory& memory, const plan::Plan& plan, graph::TaskId id) {
  const graph::Task& task = plan.graph->task(id);
  std::vector<CheckedResult> results;
  if (graph::is_collective(task.operation) && has_unwritten_rows(*plan.graph)) return results;
  const std::int32_t* const rows = written_rows(memory, plan, task);
  for (const graph::Access& access : task.accesses) {
    const graph::Tensor& tensor = plan.graph->tensor(access.view.tensor);
    if (access.mode == graph::AccessMode::read || tensor.role == graph::Role::workspace) continue;
    if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16) continue;
    if (has_statistics(*plan.graph, task, access)) continue;
    results.push_back({access.view, memory.matrix(plan, access.view), rows});
  }
  return results;
}

NonFiniteResult non_finite_result(const plan::Plan& plan, graph::TaskId id, const graph::View& view,
                                  std::int64_t element) {
  const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
  const std::int64_t in_tensor = view.offset + element / view.cols * view.row_stride + element % view.cols;
  return {id, fmt::format("task '{}' wrote a NaN or an infinity to '{}' at {}", plan.graph->task(id).name, tensor.name,
                          place(tensor, in_tensor))};
}

void FiniteCheck::look_at(const plan::Plan& plan, graph::TaskId id) {
  for (const CheckedResult& result : checked_results(memory_, plan, id)) {
    cpu::Matrix written = result.matrix;
    if (result.rows != nullptr) written.rows = std::min<std::int64_t>(written.rows, *result.rows);
    const auto found = cpu::first_non_finite(written);
    if (!found) continue;
    const std::lock_guard lock(mutex_);
    if (!first_ || id.index() < first_->task.index()) first_ = non_finite_result(plan, id, result.view, *found);
    return;
  }
}

}  // namespace weft::execute
