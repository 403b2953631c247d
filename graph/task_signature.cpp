#include "graph/task_signature.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <type_traits>

#include "graph/operation_fields.h"

namespace weft::graph {
namespace {

DType dtype_of(const Graph& graph, const Task& task) {
  for (const Access& access : task.accesses) {
    const DType dtype = graph.tensor(access.view.tensor).dtype;
    if (dtype == DType::f32 || dtype == DType::bf16) return dtype;
  }
  return DType::f32;
}

}  // namespace

std::string task_signature(const Graph& graph, const Task& task) {
  std::string text(kind_name(task.operation));
  for_each_field_schema(task.operation, [&]<class T>(const auto& field, const T& value) {
    const std::string_view name = field.name;
    if constexpr (std::is_same_v<T, bool>) {
      if (value) fmt::format_to(std::back_inserter(text), " {}", name);
    } else if constexpr (std::is_enum_v<T>) {
      fmt::format_to(std::back_inserter(text), " {}={}", name, to_string(value));
    } else if constexpr (std::is_integral_v<T>) {
      if (value != 0 && field.in_signature) {
        fmt::format_to(std::back_inserter(text), " {}={}", name, value);
      }
    }
  });
  return text + " " + std::string(to_string(dtype_of(graph, task)));
}

}  // namespace weft::graph
