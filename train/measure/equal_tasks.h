// Graphs of equal tasks with operands of their own, for steps whose time is that of the tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/operation.h"

namespace weft::train {

/// Equal tasks on the same operands, which are state: they keep their values between steps, and no task fills them.
struct EqualTasks {
  graph::Operation operation;
  DType dtype = DType::f32;  // of the arguments to which the schema leaves the choice
  std::int64_t count = 1;
  std::string name = "task";  // of the tasks and their operands, unique in a graph
  std::int64_t elements = 0;  // of each operand's memory, of which the tasks use the beginning; 0: what they use
};

/// The tasks follow those that the builder has.
void add_equal_tasks(graph::GraphBuilder& builder, const EqualTasks& tasks);

std::shared_ptr<const graph::Graph> graph_of(const EqualTasks& tasks);

}  // namespace weft::train
