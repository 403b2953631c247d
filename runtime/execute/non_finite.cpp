#include "runtime/execute/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
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

/// The rows of its results that a task of groups writes; nothing of other tasks, which write all.
std::optional<std::int64_t> written_rows(const PlanMemory& memory, const plan::Plan& plan, const graph::Task& task) {
  const auto until_last_offset = [&]<class Op>(const Op&) -> std::optional<std::int64_t> {
    const graph::Access* const offsets = graph::NamedAccesses<Op>(task).find("offsets");
    if (offsets == nullptr) return std::nullopt;
    const cpu::Matrix table = memory.matrix(plan, offsets->view);
    return table.i32()[table.rows * table.cols - 1];
  };
  return std::visit(Overloaded{[&](const graph::GroupedGemm& op) { return until_last_offset(op); },
                               [&](const graph::SwiGluForward& op) { return until_last_offset(op); },
                               [&](const graph::SwiGluBackward& op) { return until_last_offset(op); },
                               [&](const graph::GeGluForward& op) { return until_last_offset(op); },
                               [&](const graph::GeGluBackward& op) { return until_last_offset(op); },
                               [](const auto&) -> std::optional<std::int64_t> { return std::nullopt; }},
                    task.operation);
}

/// Whether collectives carry rows that nobody wrote. What else they carry, the tasks before and after them tell.
bool has_unwritten_rows(const graph::Graph& graph) {
  return std::ranges::any_of(graph.tasks(), [](const graph::Task& task) {
    return std::holds_alternative<graph::ExchangeRows>(task.operation);
  });
}

}  // namespace

void FiniteCheck::look_at(const plan::Plan& plan, graph::TaskId id) {
  const graph::Task& task = plan.graph->task(id);
  if (graph::is_collective(task.operation) && has_unwritten_rows(*plan.graph)) return;
  const std::optional<std::int64_t> rows = written_rows(memory_, plan, task);
  for (const graph::Access& access : task.accesses) {
    const graph::View& view = access.view;
    const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
    if (access.mode == graph::AccessMode::read || tensor.role == graph::Role::workspace) continue;
    cpu::Matrix result = memory_.matrix(plan, view);
    result.rows = std::min(result.rows, rows.value_or(result.rows));
    const auto found = cpu::first_non_finite(result);
    if (!found) continue;
    const std::lock_guard lock(mutex_);
    if (first_ && first_->task.index() <= id.index()) return;
    const std::int64_t element = view.offset + *found / view.cols * view.row_stride + *found % view.cols;
    first_ = {id, fmt::format("task '{}' wrote a NaN or an infinity to '{}' at {}", task.name, tensor.name,
                              place(tensor, element))};
    return;
  }
}

}  // namespace weft::execute
