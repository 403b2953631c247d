// The computations of tasks as plain data: no pointers, no closures, no value that changes from step to step.
//
// Each operation is a struct with its schema (graph/operations/schema.h), in graph/operations/ by family; this header
// makes them one type. Activations and parameters are fp32 or bf16. Statistics, losses, gradients of parameters and
// optimizer state are always fp32.
#pragma once

#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "graph/operations/attention.h"
#include "graph/operations/collectives.h"
#include "graph/operations/elementwise.h"
#include "graph/operations/embedding.h"
#include "graph/operations/experts.h"
#include "graph/operations/losses.h"
#include "graph/operations/norms.h"
#include "graph/operations/opaque.h"
#include "graph/operations/optimizer.h"
#include "graph/operations/products.h"

namespace weft::graph {

template <class... Lists>
struct JoinedLists;
template <class... Ops>
struct JoinedLists<OperationList<Ops...>> {
  using Variant = std::variant<Ops...>;
};
template <class... First, class... Second, class... Rest>
struct JoinedLists<OperationList<First...>, OperationList<Second...>, Rest...>
    : JoinedLists<OperationList<First..., Second...>, Rest...> {};

/// All operations: the families' lists.
using OperationVariant = JoinedLists<ProductOperations, NormOperations, ColumnOperations, EmbeddingOperations,
                                     AttentionOperations, ElementwiseOperations, LossOperations, OptimizerOperations,
                                     CollectiveOperations, ExpertOperations, OperationList<Opaque>>::Variant;

template <class Op, class Variant>
inline constexpr bool is_alternative_of = false;
template <class Op, class... Ops>
inline constexpr bool is_alternative_of<Op, std::variant<Ops...>> = (std::is_same_v<Op, Ops> || ...);

/// One of the operations; std::visit() and std::get() take it as a variant. Its constructors, copies and destructor are
/// compiled in operation.cpp alone: a variant of so many types has long ones, and every file that holds tasks would
/// compile them again.
class Operation : public OperationVariant {
 public:
  Operation();
  // Not explicit: a task's operation is written as one of the structs. Instantiated in operation.cpp for each of them.
  template <class Op>
  requires is_alternative_of<Op, OperationVariant> Operation(Op op);  // NOLINT(google-explicit-constructor)
  Operation(const Operation& other);
  Operation(Operation&& other) noexcept;
  Operation& operator=(const Operation& other);
  Operation& operator=(Operation&& other) noexcept;
  ~Operation();
};

/// The operation's name in drawings, traces and profiles: "gemm", "all_reduce", …
std::string_view kind_name(const Operation& operation);

/// The class by which drawings colour and statistics count the operation.
KindClass kind_class(const Operation& operation);

/// The process group of a collective, or the queue of its own that an opaque task runs on; null for a task that runs on
/// compute streams.
const Channel* channel_of(const Operation& operation);
/// Whether the task sends to other ranks or receives from them: a collective, or a message between stages.
bool is_collective(const Operation& operation);

/// `element_bytes` is the element size in bytes of the activations (for collectives: of the payload).
Work work_of(const Operation& operation, double element_bytes);

/// An error in the fields that no arguments could repair; "" if there is none.
std::string_view contradiction_in(const Operation& operation);

/// Calls f(row of the schema, value) for each field, except told_if_set() fields that aren't set. Values are integers,
/// floats, bools, a Channel or an Epilogue. Names are for fingerprints, dumps and tooltips.
template <class F>
void for_each_field_schema(const Operation& operation, F&& f) {
  std::visit(
      [&]<class Op>(const Op& op) {
        const auto tell = [&](const auto& row) {
          const auto& value = op.*row.member;
          if (!row.only_if_set || value != std::remove_cvref_t<decltype(value)>{}) f(row, value);
        };
        std::apply([&](const auto&... rows) { (tell(rows), ...); }, Op::fields());
      },
      operation);
}

/// Like for_each_field_schema(), but calls f(name, value).
template <class F>
void for_each_field(const Operation& operation, F&& f) {
  for_each_field_schema(operation, [&](const auto& row, const auto& value) { f(row.name, value); });
}

/// Calls f with all rows of the operation's schema, present or not: a std::span<const ArgumentSchema>.
template <class F>
decltype(auto) with_arguments(const Operation& operation, F&& f) {
  return std::visit(
      [&](const auto& op) -> decltype(auto) {
        const auto rows = op.arguments();
        return f(std::span<const ArgumentSchema>(rows));
      },
      operation);
}

}  // namespace weft::graph
