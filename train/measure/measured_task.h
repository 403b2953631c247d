// A computation with operands of its own, timed on all ranks at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "graph/operation.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::train {

/// Runs an operation by the kernel that the executor calls. Operands have small numbers of both signs.
///
///   MeasuredTask product(graph::Gemm{m, n, k}, {{m, k}, {k, n}, {m, n}}, workers);
///   const double seconds = clock.seconds([&] { product.run(); });
class MeasuredTask {
 public:
  struct Shape {
    std::int64_t rows = 1, cols = 0;
    DType dtype = DType::f32;
  };

  /// `shapes`: of the operation's arguments, in their order. The workers must outlive the task.
  MeasuredTask(const graph::Operation& operation, const std::vector<Shape>& shapes, cpu::Workers& workers);

  void run() { task_.run(workers_); }

 private:
  std::vector<cpu::Matrix> operands(const std::vector<Shape>& shapes);

  std::vector<Buffer> memory_;
  execute::PreparedTask task_;
  cpu::Workers& workers_;
};

/// Times of what all ranks do at once.
class RankClock {
 public:
  /// Medians of `repeats`, each of which lasts at least `least_seconds`, approximately.
  RankClock(comm::World& world, int repeats, double least_seconds)
      : world_(world), repeats_(repeats), least_seconds_(least_seconds) {}

  /// Seconds of one call, the mean over the ranks. Collective over the world.
  double seconds(const std::function<void()>& function);
  /// The same of the slowest rank, for functions in which ranks wait for each other.
  double slowest_seconds(const std::function<void()>& function);

 private:
  struct Times {
    double mean = 0, greatest = 0;
  };
  Times measure(const std::function<void()>& function);
  Times over_ranks(double value);

  comm::World& world_;
  const int repeats_;
  const double least_seconds_;
};

}  // namespace weft::train
