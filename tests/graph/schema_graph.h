// Tasks made only from the schemas of their operations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace weft::testing {

/// An operation, and its own state tensor for each argument that is present.
struct TaskOfSchema {
  std::string name;
  graph::Operation operation;
  std::vector<graph::ArgumentSchema> rows;
  std::vector<graph::Tensor> tensors;
  std::vector<graph::AccessMode> modes;

  void add_to(graph::GraphBuilder& builder) const {
    graph::Task task{name, operation, {}};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      task.accesses.push_back({graph::whole(builder, builder.add_tensor(tensors[i])), modes[i]});
    }
    builder.add_task(std::move(task));
  }
};

/// `dtype` is the dtype of arguments that may have several.
inline TaskOfSchema task_of_schema(std::string name, const graph::Operation& operation, DType dtype) {
  TaskOfSchema made{std::move(name), operation, {}, {}, {}};
  graph::with_arguments(operation, [&](std::span<const graph::ArgumentSchema> schema) {
    for (const graph::ArgumentSchema& row : schema) {
      if (!row.present) continue;
      const graph::ArgumentShape& shape = row.shape;
      std::vector<std::int64_t> extents = {shape.rows, shape.cols};
      if (shape.form == graph::ArgumentShape::Form::any_rows) extents[0] = 3;
      if (shape.form == graph::ArgumentShape::Form::any_size) extents[1] = 5;
      const bool fixed = row.elements.rule == graph::ArgumentElements::Rule::one_dtype;
      made.rows.push_back(row);
      made.tensors.push_back({made.name + "." + std::to_string(made.tensors.size()), fixed ? row.elements.dtype : dtype,
                              std::move(extents), graph::Role::parameter});
      made.modes.push_back(row.mode);
    }
  });
  return made;
}

}  // namespace weft::testing
