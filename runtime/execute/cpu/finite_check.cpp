#include "runtime/execute/cpu/finite_check.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "runtime/execute/non_finite.h"

namespace weft {
namespace {

/// The indices of an element, counted row-major: "[3, 17]".
std::string place(const Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> indices(tensor.shape.size());
  for (std::size_t i = indices.size(); i-- > 0; element /= tensor.shape[i]) indices[i] = element % tensor.shape[i];
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

}  // namespace

void FiniteCheck::look_at(const Plan& plan, TaskId id) {
  const Task& task = plan.graph->task(id);
  for (const Access& access : task.accesses) {
    const View& view = access.view;
    const Tensor& tensor = plan.graph->tensor(view.tensor);
    if (access.mode == AccessMode::read || tensor.role == Role::workspace) continue;
    const auto found = first_non_finite(memory_.matrix(plan, view));
    if (!found) continue;
    const std::lock_guard lock(mutex_);
    if (first_ && first_->task.index() <= id.index()) return;
    const std::int64_t element = view.offset + *found / view.cols * view.row_stride + *found % view.cols;
    first_ = {id, fmt::format("task '{}' wrote a NaN or an infinity to '{}' at {}", task.name, tensor.name,
                              place(tensor, element))};
    return;
  }
}

}  // namespace weft
