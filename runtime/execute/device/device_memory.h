// Checks that the ranks' memory fits a device before anything is allocated there; the memory that cuDNN's attention
// and exchanges of rows take beside their arguments, known without a device.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "graph/operations/attention.h"
#include "runtime/execute/device/device.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// Bytes that one rank needs on its device, and its limit. The code of kernels, and memory that libraries take for
/// themselves, come on top; they are known only when they are there.
struct DeviceNeed {
  std::int64_t state = 0;     // parameters, optimizer state, inputs, caches
  std::int64_t scratch = 0;   // the plan's arena: activations, gradients, workspaces
  std::int64_t may_take = 0;  // 0: as much as there is
  std::int64_t buffers = 0;   // of communicators: segments of rows, and DeviceTransport::device_bytes(), estimated
  std::int64_t kernels = 0;   // scratch of kernels: Device::scratch_bytes()
};

/// Throws UserError naming the sizes and settings that need less.
void expect_device_memory(const Device& device, const DeviceNeed& need);

/// One rank's view of a device, which it sends to all ranks.
struct DeviceView {
  std::uint64_t device = 0;  // Device::identity()
  std::int64_t free = 0;     // bytes, once the rank's own context was there
};

/// The share of rank `rank`: ranks of one device divide evenly the least free memory that one of them saw.
std::int64_t memory_share(std::span<const DeviceView> views, std::size_t rank);

/// Bytes of workspace of cuDNN's deterministic engines for the backward pass in bf16: the gradient of all scores, and,
/// where query heads share key and value heads, the gradients of keys and values of each query head. It is what cuDNN
/// 9.19 says for Hopper; tests/gpu/cudnn_engines_test.cpp compares them.
std::int64_t cudnn_backward_workspace(const graph::AttentionBackward& op);

/// Bytes of scratch that the plan's attention takes on a GPU, estimated: on each compute stream those of the largest
/// task. `most_workspace`: CudaSettings::attention_workspace.
std::int64_t attention_scratch_bytes(const plan::Plan& plan, std::int64_t most_workspace);

/// Bytes of the segments for any choice, to send and to receive, of an exchange of rows where a transport sends whole
/// ones: rows of `count` elements, of which a rank's experts have place for `most`.
constexpr std::int64_t row_segments_bytes(std::int64_t most, std::int64_t count, DType dtype) {
  return 2 * most * count * static_cast<std::int64_t>(size_of(dtype));
}

/// Of the plan's largest exchange; the channel runs one at a time.
std::int64_t row_segments_bytes(const plan::Plan& plan);

}  // namespace weft::execute
