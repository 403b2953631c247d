#include "runtime/execute/task_arguments.h"

#include <fmt/format.h>

#include <stdexcept>
#include <variant>

#include "base/overloaded.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/gemm.h"

namespace weft::execute {
namespace {

using cpu::Matrix;

[[noreturn]] void refuse(const graph::Operation& operation, std::string_view argument, const Matrix& found,
                         const graph::ArgumentShape& expected) {
  throw std::logic_error(fmt::format("{}: argument {} is {} x {}, expected {}", graph::kind_name(operation), argument,
                                     found.rows, found.cols, graph::to_string(expected)));
}

Matrix fitted(const graph::Operation& operation, const graph::ArgumentSchema& row, const Matrix& argument) {
  const auto seen = graph::seen_as(row.shape, argument.rows, argument.cols, cpu::contiguous(argument));
  if (!seen) refuse(operation, row.name, argument, row.shape);
  if (seen->rows == argument.rows && seen->cols == argument.cols) return argument;
  return {argument.data, seen->rows, seen->cols, seen->cols, argument.dtype};
}

std::vector<Matrix> slots_of(const graph::Operation& operation, std::span<const Matrix> arguments) {
  if (const std::string_view wrong = graph::contradiction_in(operation); !wrong.empty()) {
    throw std::logic_error(fmt::format("{}: {}", graph::kind_name(operation), wrong));
  }
  return graph::with_arguments(operation, [&](std::span<const graph::ArgumentSchema> schema) {
    std::vector<Matrix> slots;
    std::size_t taken = 0;
    for (const graph::ArgumentSchema& row : schema) {
      if (row.present && taken == arguments.size()) {
        throw std::logic_error(fmt::format("{}: argument {} is missing", graph::kind_name(operation), row.name));
      }
      slots.push_back(row.present ? fitted(operation, row, arguments[taken++]) : kAbsentArgument);
    }
    if (taken < arguments.size()) {
      throw std::logic_error(
          fmt::format("{}: {} arguments, expected {}", graph::kind_name(operation), arguments.size(), taken));
    }
    return slots;
  });
}

// The size of packed weights depends on the machine, so the schema doesn't check it.
void check_packed(const graph::Operation& operation, std::string_view argument, const Matrix* packed,
                  const cpu::GemmShape& shape) {
  if (packed == nullptr || packed->cols == cpu::packed_b_elements(shape)) return;
  refuse(operation, argument, *packed, graph::ArgumentShape(cpu::packed_b_elements(shape)));
}

}  // namespace

cpu::Matrix matrix_of(const graph::Graph& graph, const graph::View& view, std::byte* begin) {
  const DType dtype = graph.tensor(view.tensor).dtype;
  std::byte* const data = begin + view.offset * static_cast<std::int64_t>(size_of(dtype));
  return {data, view.rows, view.cols, view.row_stride, dtype};
}

cpu::Matrix PlanMemory::matrix(const plan::Plan& plan, const graph::View& view) const {
  const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
  return matrix_of(
      *plan.graph, view,
      graph::is_state(tensor.role) ? of_state + state->offset(tensor.name) : arena + plan.offset[view.tensor.index()]);
}

std::vector<cpu::Matrix> PlanMemory::arguments(const plan::Plan& plan, const graph::Task& task) const {
  std::vector<cpu::Matrix> all;
  for (const graph::Access& access : task.accesses) all.push_back(matrix(plan, access.view));
  return all;
}

std::vector<cpu::Matrix> fitted_arguments(const graph::Operation& operation, std::span<const cpu::Matrix> arguments) {
  if (graph::is_collective(operation)) refuse_collective();
  std::vector<Matrix> slots = slots_of(operation, arguments);
  if (const auto* op = std::get_if<graph::Gemm>(&operation)) {
    check_packed(operation, "packed_B", Call(*op, slots).find("packed_B"), {.m = 1, .n = op->n, .k = op->k});
  } else if (const auto* pack = std::get_if<graph::PackWeight>(&operation)) {
    check_packed(operation, "packed", Call(*pack, slots).find("packed"), {.m = 1, .n = pack->n, .k = pack->k});
  }
  return slots;
}

comm::CollectiveCall collective_call(const graph::Task& task, std::span<const cpu::Matrix> arguments, int group_rank) {
  const std::vector<Matrix> slots = slots_of(task.operation, arguments);
  using Kind = comm::CollectiveKind;
  const auto call = [&](Kind kind, std::int64_t count, const void* in, void* out, void* workspace) {
    return comm::CollectiveCall{kind, slots.front().dtype, count, 0, in, out, workspace};
  };
  const auto broadcast = [&](const auto& op, std::int64_t root) {
    comm::CollectiveCall made = call(Kind::broadcast, op.count, nullptr, Call(op, slots)["buffer"].data, nullptr);
    made.root = root;
    return made;
  };
  return std::visit(
      Overloaded{[&](const graph::AllReduce& op) {
                   const Call c(op, slots);
                   return call(Kind::all_reduce, op.count, nullptr, c["buffer"].data, c["workspace"].data);
                 },
                 [&](const graph::ReduceScatter& op) {
                   const Call c(op, slots);
                   return call(Kind::reduce_scatter, op.count, c["in"].data, c["out"].data, c["workspace"].data);
                 },
                 [&](const graph::AllGather& op) {
                   const Call c(op, slots);
                   return call(Kind::all_gather, op.count, c["in"].data, c["out"].data, nullptr);
                 },
                 [&](const graph::AllToAll& op) {
                   const Call c(op, slots);
                   comm::CollectiveCall made = call(Kind::all_to_all, op.count, c["in"].data, c["out"].data, nullptr);
                   made.parts = op.parts;
                   made.inverse = op.inverse;
                   return made;
                 },
                 [&](const graph::ExchangeRows& op) {
                   const Call c(op, slots);
                   comm::CollectiveCall made =
                       call(Kind::exchange_rows, op.count, c["in"].data, c["out"].data, nullptr);
                   made.inverse = op.inverse;
                   made.table = {c["table"].i32(), op.experts, op.rows, op.most};
                   return made;
                 },
                 [&](const graph::Broadcast& op) { return broadcast(op, op.root); },
                 [&](const graph::Send& op) { return broadcast(op, group_rank); },
                 [&](const graph::Receive& op) { return broadcast(op, 1 - group_rank); },
                 [&](const auto& op) -> comm::CollectiveCall {
                   throw std::logic_error(fmt::format("{}, {}, is no collective", task.name, op.kind));
                 }},
      task.operation);
}

void refuse_collective() {
  throw std::logic_error("a collective is run by a communicator, not by a kernel");
}

void refuse_opaque(const graph::Opaque& task) {
  throw std::logic_error(
      fmt::format("a task of kind '{}' is known by its cost alone, and no kernel runs it", task.name));
}

}  // namespace weft::execute
