#include "runtime/execute/task_arguments.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <variant>

#include "base/overloaded.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/packed_gemm.h"

namespace weft {
namespace {

using cpu::Matrix;

[[noreturn]] void refuse(const Operation& operation, std::string_view argument, const Matrix& found,
                         const ArgumentShape& expected) {
  throw std::logic_error(fmt::format("{}: argument {} is {} x {}, expected {}", kind_name(operation), argument,
                                     found.rows, found.cols, to_string(expected)));
}

Matrix fitted(const Operation& operation, const ArgumentSchema& row, const Matrix& argument) {
  const auto seen = seen_as(row.shape, argument.rows, argument.cols, cpu::contiguous(argument));
  if (!seen) refuse(operation, row.name, argument, row.shape);
  if (seen->rows == argument.rows && seen->cols == argument.cols) return argument;
  return {argument.data, seen->rows, seen->cols, seen->cols, argument.dtype};
}

std::vector<Matrix> slots_of(const Operation& operation, std::span<const Matrix> arguments) {
  if (const std::string_view wrong = contradiction_in(operation); !wrong.empty()) {
    throw std::logic_error(fmt::format("{}: {}", kind_name(operation), wrong));
  }
  return with_arguments(operation, [&](std::span<const ArgumentSchema> schema) {
    std::vector<Matrix> slots;
    std::size_t taken = 0;
    for (const ArgumentSchema& row : schema) {
      if (row.present && taken == arguments.size()) {
        throw std::logic_error(fmt::format("{}: argument {} is missing", kind_name(operation), row.name));
      }
      slots.push_back(row.present ? fitted(operation, row, arguments[taken++]) : kAbsentArgument);
    }
    if (taken < arguments.size()) {
      throw std::logic_error(
          fmt::format("{}: {} arguments, expected {}", kind_name(operation), arguments.size(), taken));
    }
    return slots;
  });
}

// Packed weights are of the size that this machine asks for, which the schema doesn't know.
void check_packed(const Operation& operation, std::string_view argument, const Matrix* packed,
                  const cpu::GemmShape& shape) {
  if (packed == nullptr || packed->cols == cpu::packed_b_elements(shape)) return;
  refuse(operation, argument, *packed, ArgumentShape(cpu::packed_b_elements(shape)));
}

}  // namespace

cpu::Matrix matrix_of(const Graph& graph, const View& view, std::byte* begin) {
  const DType dtype = graph.tensor(view.tensor).dtype;
  std::byte* const data = begin + view.offset * static_cast<std::int64_t>(size_of(dtype));
  return {data, view.rows, view.cols, view.row_stride, dtype};
}

std::vector<cpu::Matrix> fitted_arguments(const Operation& operation, std::span<const cpu::Matrix> arguments) {
  if (is_collective(operation)) refuse_collective();
  std::vector<Matrix> slots = slots_of(operation, arguments);
  if (const auto* op = std::get_if<Gemm>(&operation)) {
    const NamedArguments<Gemm> named(slots);
    check_packed(operation, "packed_B", named.find("packed_B"), {.m = 1, .n = op->n, .k = op->k});
  } else if (const auto* pack = std::get_if<PackWeight>(&operation)) {
    const NamedArguments<PackWeight> named(slots);
    check_packed(operation, "packed", named.find("packed"), {.m = 1, .n = pack->n, .k = pack->k});
  }
  return slots;
}

CollectiveCall collective_call(const Task& task, std::span<const cpu::Matrix> arguments) {
  const std::vector<Matrix> slots = slots_of(task.operation, arguments);
  return std::visit(
      Overloaded{
          [&](const AllReduce& op) {
            const NamedArguments<AllReduce> a(slots);
            return CollectiveCall{CollectiveKind::all_reduce, a["buffer"].dtype,  op.count, 0, nullptr,
                                  a["buffer"].data,           a["workspace"].data};
          },
          [&](const ReduceScatter& op) {
            const NamedArguments<ReduceScatter> a(slots);
            return CollectiveCall{CollectiveKind::reduce_scatter,
                                  a["in"].dtype,
                                  op.count,
                                  0,
                                  a["in"].data,
                                  a["out"].data,
                                  a["workspace"].data};
          },
          [&](const AllGather& op) {
            const NamedArguments<AllGather> a(slots);
            return CollectiveCall{
                CollectiveKind::all_gather, a["in"].dtype, op.count, 0, a["in"].data, a["out"].data, nullptr};
          },
          [&](const Broadcast& op) {
            const NamedArguments<Broadcast> a(slots);
            return CollectiveCall{
                CollectiveKind::broadcast, a["buffer"].dtype, op.count, op.root, nullptr, a["buffer"].data, nullptr};
          },
          [&](const auto& op) -> CollectiveCall {
            throw std::logic_error(fmt::format("{}, {}, is no collective", task.name, op.kind));
          }},
      task.operation);
}

void refuse_collective() {
  throw std::logic_error("a collective is run by a communicator, not by a kernel");
}

}  // namespace weft
