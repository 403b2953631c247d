#include "train/measure/equal_tasks.h"

#include <fmt/format.h>

#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace weft::train {

void add_equal_tasks(graph::GraphBuilder& builder, const EqualTasks& tasks) {
  std::vector<graph::Access> accesses;
  const auto add_operand = [&](const graph::ArgumentSchema& row) {
    if (!row.present) return;
    const std::int64_t rows = row.shape.rows, cols = row.shape.cols;
    const bool fixed = row.elements.rule == graph::ArgumentElements::Rule::one_dtype;
    const std::int64_t elements = tasks.elements > 0 ? tasks.elements : rows * cols;
    const graph::TensorId tensor = builder.add_tensor({fmt::format("{}.{}", tasks.name, row.name),
                                                       fixed ? row.elements.dtype : tasks.dtype,
                                                       {elements},
                                                       graph::Role::parameter});
    accesses.push_back({{tensor, 0, rows, cols, cols}, row.mode});
  };
  std::visit(
      [&](const auto& operation) {
        for (const graph::ArgumentSchema& row : operation.arguments()) add_operand(row);
      },
      tasks.operation);
  for (std::int64_t i = 0; i < tasks.count; ++i) {
    builder.add_task({fmt::format("{}{}", tasks.name, i), tasks.operation, accesses});
  }
}

std::shared_ptr<const graph::Graph> graph_of(const EqualTasks& tasks) {
  graph::GraphBuilder builder;
  add_equal_tasks(builder, tasks);
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

}  // namespace weft::train
