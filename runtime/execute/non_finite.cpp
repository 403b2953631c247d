#include "runtime/execute/non_finite.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "kernels/cpu/non_finite.h"

namespace weft::execute {
namespace {

/// The indices of an element, counted row-major: "[3, 17]".
std::string place(const graph::Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> indices(tensor.shape.size());
  for (std::size_t i = indices.size(); i-- > 0; element /= tensor.shape[i]) indices[i] = element % tensor.shape[i];
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

}  // namespace

void FiniteCheck::look_at(const plan::Plan& plan, graph::TaskId id) {
  const graph::Task& task = plan.graph->task(id);
  for (const graph::Access& access : task.accesses) {
    const graph::View& view = access.view;
    const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
    if (access.mode == graph::AccessMode::read || tensor.role == graph::Role::workspace) continue;
    const auto found = cpu::first_non_finite(memory_.matrix(plan, view));
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
