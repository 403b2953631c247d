#include "runtime/execute/tuning/device_gemm_trials.h"

namespace weft::execute {
namespace {

// The number of uses of an element at which the product's flops take as long as copying it: on an H100 about 4 bytes at
// 2 TB/s beside 1400 flops at 700 TFLOP/s in bf16, 8 bytes beside 240 flops at 60 TFLOP/s in fp32. The other layout has
// to be about twice as fast then. The least flops take some ten microseconds, a few times a kernel's start.
constexpr cpu::CopyRule kHalf{.least_uses = 1024, .least_flops = 8e9};
constexpr cpu::CopyRule kSingle{.least_uses = 128, .least_flops = 1e9};

}  // namespace

std::vector<cpu::GemmLayout> device_gemm_layouts(const GemmProblem& problem) {
  if (problem.epilogue != Epilogue::none) return {};
  return cpu::other_layouts(problem.shape(), problem.inputs, problem.inputs == DType::bf16 ? kHalf : kSingle);
}

}  // namespace weft::execute
