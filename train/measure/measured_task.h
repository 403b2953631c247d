// Computations with operands of their own: graphs of equal tasks, for steps whose time is that of the tasks, and one
// task on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/operation.h"
#include "kernels/cpu/parallel.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::train {

/// Runs an operation by the kernel that the executor calls. Operands have small numbers of both signs.
///
///   MeasuredTask product(graph::Gemm{m, n, k}, DType::f32, workers);
///   const double seconds = clock.seconds([&] { product.run(); });
class MeasuredTask {
 public:
  /// `dtype`: of the arguments to which the schema leaves the choice. The workers must outlive the task.
  MeasuredTask(const graph::Operation& operation, DType dtype, cpu::Workers& workers);

  void run() { task_.run(workers_); }

 private:
  execute::PreparedTask prepared(const graph::Operation& operation, DType dtype);

  std::vector<Buffer> memory_;
  execute::PreparedTask task_;
  cpu::Workers& workers_;
};

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
