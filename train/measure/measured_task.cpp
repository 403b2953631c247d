#include "train/measure/measured_task.h"

#include "graph/graph.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/tuning/small_numbers.h"
#include "train/measure/measured_graph.h"

namespace weft::train {

MeasuredTask::MeasuredTask(const graph::Operation& operation, DType dtype, cpu::Workers& workers)
    : task_(prepared(operation, dtype)), workers_(workers) {
  workers_.reserve(task_.scratch());
}

execute::PreparedTask MeasuredTask::prepared(const graph::Operation& operation, DType dtype) {
  const graph::Graph graph = graph_of({operation, dtype});
  std::vector<cpu::Matrix> arguments;
  for (const graph::Access& access : graph.tasks().front().accesses) {
    const std::int64_t bytes = graph.tensor(access.view.tensor).bytes();
    arguments.push_back(execute::matrix_of(graph, access.view, memory_.emplace_back(bytes).data()));
    execute::fill_with_small_numbers(arguments.back());
  }
  return {operation, arguments};
}

}  // namespace weft::train
