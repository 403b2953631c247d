// Where operations meet CPU kernels: one overload an operation, so that an operation without a kernel doesn't compile.
#pragma once

#include <variant>
#include <vector>

#include "graph/operation.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft {

/// What a worker and a stream must reserve (Workers::reserve) before a task runs.
using KernelScratch = cpu::Scratch;

/// A computation made ready to run: its operation with resolved addresses and prepared library handles, so that run()
/// looks nothing up and allocates nothing.
///
///   PreparedTask task(Add{n}, {a, b, out});
///   workers.reserve(task.scratch());
///   task.run(workers);                      // out = a + b, as often as wanted
class PreparedTask {
 public:
  /// `arguments` are the task's accesses in the order that graph/operation.h gives. Contiguous arguments may come in
  /// any shape of the right size. Throws std::logic_error if their number or sizes don't fit the operation, and for
  /// collectives, which communicators run.
  PreparedTask(const Operation& operation, std::vector<cpu::Matrix> arguments);

  void run(cpu::Workers& workers) const;
  KernelScratch scratch() const;

 private:
  Operation operation_;
  std::vector<cpu::Matrix> arguments_;
  std::variant<std::monostate, cpu::PreparedGemm, std::vector<float>> prepared_;  // nothing, handles, RoPE frequencies
};

}  // namespace weft
