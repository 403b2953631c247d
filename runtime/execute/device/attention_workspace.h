// The device memory that cuDNN's attention takes beside its arguments, known without a device.
#pragma once

#include <cstdint>

#include "graph/operations/attention.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// The default of CudaSettings::attention_workspace. Twice as much as one sequence of 8192 tokens takes with 32 heads.
inline constexpr std::int64_t kAttentionWorkspace = std::int64_t{10} << 30;

/// Bytes of workspace of cuDNN's deterministic engines for the backward pass in bf16: the gradient of all scores, and,
/// where query heads share key and value heads, the gradients of keys and values of each query head. It is what cuDNN
/// 9.19 says for Hopper; tests/gpu/cudnn_engines_test.cpp compares them.
std::int64_t cudnn_backward_workspace(const graph::AttentionBackward& op);

/// Bytes of scratch that the plan's attention takes on a GPU, estimated: on each compute stream those of the largest
/// task. `most_workspace`: CudaSettings::attention_workspace.
std::int64_t attention_scratch_bytes(const plan::Plan& plan, std::int64_t most_workspace);

}  // namespace weft::execute
