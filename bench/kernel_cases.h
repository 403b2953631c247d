// Every CPU kernel as bench_kernels runs it: its arguments at one size beyond the cache and one inside it, and what it
// has to move and compute.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/buffer.h"
#include "kernels/cpu/gemm/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// What one run of a kernel moves and computes. Bytes count once each, whatever the kernel reads again; `allocated` are
/// those of stores to memory that it doesn't read.
struct KernelCost {
  std::int64_t read = 0, written = 0, allocated = 0, flops = 0;
};

struct KernelCase {
  std::string name;  // "gelu_backward bf16 1024x3072"
  KernelCost cost;
  Scratch scratch;
  std::function<void(Workers&)> run;
};

/// Memory for the arguments of one case after another, in large pages as a program's tensors are.
class CasePool {
 public:
  explicit CasePool(std::int64_t bytes) : memory_(bytes) {}

  std::size_t used() const { return used_; }
  void release(std::size_t used) { used_ = used; }
  std::byte* take(std::int64_t bytes);

  /// Numbers between −3 and 3, or between 0 and 3.
  Matrix floats(DType dtype, std::int64_t rows, std::int64_t cols, bool positive = false);
  Matrix integers(std::int64_t count, std::int64_t below);

 private:
  Buffer memory_;
  std::size_t used_ = 0;
};

/// Calls visit(case) for the kernels of one element type whose names contain `filter`; a case's arguments live in the
/// pool until the next is made.
void visit_kernel_cases(CasePool& pool, DType dtype, const std::string& filter,
                        const std::function<void(const KernelCase&)>& visit);

}  // namespace weft::cpu
