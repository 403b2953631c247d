// Calls of CPU kernels for operations: one overload per operation, so that an operation without a kernel doesn't
// compile.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"
#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {

/// A computation made ready to run: its operation with resolved addresses and prepared library handles, so that run()
/// looks nothing up and allocates nothing.
///
///   PreparedTask task(Add{n}, {a, b, out});
///   workers.reserve(task.scratch());
///   task.run(workers);                      // out = a + b, as often as wanted
class PreparedTask {
 public:
  /// `arguments` are the task's accesses in the order of the operation's schema. Contiguous arguments may come in
  /// any shape of the right size. Throws std::logic_error if their number or sizes don't fit the operation, and for
  /// collectives, which communicators run. Matrix products use the methods of `tuning`, if given, and they and
  /// attention its unit for bf16, else the CPU's widest.
  PreparedTask(const graph::Operation& operation, const std::vector<cpu::Matrix>& arguments,
               const GemmTuning* tuning = nullptr);

  void run(cpu::Workers& workers) const { kernel_->run(workers); }
  /// To be reserved (Workers::reserve) before the task runs.
  cpu::Scratch scratch() const { return kernel_->scratch(); }

 private:
  // A kernel for one operation's type, in one piece of memory with its arguments: steps of many small tasks are bound
  // by the time to read the tasks' descriptions.
  struct Kernel {
    virtual ~Kernel() = default;
    virtual void run(cpu::Workers& workers) const = 0;
    virtual cpu::Scratch scratch() const = 0;
  };
  template <class Op>
  class KernelOf;

  std::unique_ptr<const Kernel> kernel_;
};

}  // namespace weft::execute
