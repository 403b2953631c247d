// The cases of bench_kernels: every CPU kernel with arguments larger than the cache and with arguments inside it, and
// the bytes and operations that it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/cpu_limits.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Bytes moved and operations computed by one run of a kernel. Each byte counts once, even if the kernel reads it
/// again; `allocated` are bytes of stores to memory that it doesn't read.
struct KernelCost {
  std::int64_t read = 0, written = 0, allocated = 0, flops = 0;
};

struct KernelCase {
  std::string name;  // "gelu_backward bf16 1024x3072"
  KernelCost cost;
  Scratch scratch;
  std::function<void(Workers&)> run;
};

/// Calls visit(case) for the kernels of one element type whose names contain `filter`. A case's arguments are in the
/// pool until the next case is made.
void visit_kernel_cases(CasePool& pool, DType dtype, const std::string& filter,
                        const std::function<void(const KernelCase&)>& visit);

}  // namespace weft::cpu
