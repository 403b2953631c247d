#include "runtime/execute/non_finite.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace weft::execute {
namespace {

// NaNs and infinities are exactly the numbers whose exponent bits are all set. A row is first searched without a
// branch an element, which the compiler turns into vector code.
template <class Bits>
std::optional<std::int64_t> first_in_row(const Bits* row, std::int64_t cols, Bits exponent) {
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t begin = 0; begin < cols; begin += kChunk) {
    const std::int64_t end = begin + kChunk < cols ? begin + kChunk : cols;
    unsigned found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= static_cast<unsigned>((row[i] & exponent) == exponent);
    if (found == 0) continue;
    for (std::int64_t i = begin;; ++i) {
      if ((row[i] & exponent) == exponent) return i;
    }
  }
  return std::nullopt;
}

template <class Bits>
std::optional<std::int64_t> first_in(const cpu::Matrix& matrix, Bits exponent) {
  const auto* data = static_cast<const Bits*>(matrix.data);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    if (const auto col = first_in_row(data + r * matrix.row_stride, matrix.cols, exponent)) {
      return r * matrix.cols + *col;
    }
  }
  return std::nullopt;
}

/// The indices of an element, counted row-major: "[3, 17]".
std::string place(const graph::Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> indices(tensor.shape.size());
  for (std::size_t i = indices.size(); i-- > 0; element /= tensor.shape[i]) indices[i] = element % tensor.shape[i];
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

}  // namespace

std::optional<std::int64_t> first_non_finite(const cpu::Matrix& matrix) {
  switch (matrix.dtype) {
    case DType::f32:
      return first_in<std::uint32_t>(matrix, 0x7f800000U);
    case DType::bf16:
      return first_in<std::uint16_t>(matrix, 0x7f80U);
    case DType::i32:
    case DType::i64:
      return std::nullopt;
  }
  return std::nullopt;
}

void FiniteCheck::look_at(const plan::Plan& plan, graph::TaskId id) {
  const graph::Task& task = plan.graph->task(id);
  for (const graph::Access& access : task.accesses) {
    const graph::View& view = access.view;
    const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
    if (access.mode == graph::AccessMode::read || tensor.role == graph::Role::workspace) continue;
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

}  // namespace weft::execute
