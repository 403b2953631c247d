// A computation on the CPU with operands of its own.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
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

}  // namespace weft::train
