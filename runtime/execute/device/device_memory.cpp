#include "runtime/execute/device/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/dtype.h"
#include "base/error.h"
#include "graph/named_accesses.h"
#include "graph/operation.h"

namespace weft::execute {
namespace {

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

std::int64_t scratch_bytes(const graph::Graph& graph, const graph::Task& task, std::int64_t most_workspace) {
  const auto* op = std::get_if<graph::AttentionBackward>(&task.operation);
  if (op == nullptr) return 0;
  const graph::View& q = graph::NamedAccesses<graph::AttentionBackward>(task)["q"].view;
  // Σ dout·out of each row, which cuDNN's engines and Weft's kernels want.
  const std::int64_t sums = op->batch * op->heads * op->seq * static_cast<std::int64_t>(sizeof(float));
  if (graph.tensor(q.tensor).dtype != DType::bf16 || op->window > 0 || op->documents || op->scale != 0.0F) return sums;
  const std::int64_t workspace = cudnn_backward_workspace(*op);
  return workspace > most_workspace ? sums : sums + workspace;
}

}  // namespace

void expect_device_memory(const Device& device, const DeviceNeed& need) {
  const std::int64_t needed = need.state + need.scratch + need.buffers + need.kernels;
  if (need.may_take == 0 || needed <= need.may_take) return;
  const auto gib = [](std::int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); };
  const DeviceMemory memory = device.memory();
  std::string found = fmt::format("a rank needs at least {} of {}: {} of parameters, optimizer state and inputs",
                                  gib(needed), device.name(), gib(need.state));
  if (need.scratch > 0) found += fmt::format(", {} of activations, gradients and workspaces", gib(need.scratch));
  if (need.kernels > 0) found += fmt::format(", {} of kernels' scratch", gib(need.kernels));
  if (need.buffers > 0) found += fmt::format(", about {} of communicators' buffers", gib(need.buffers));
  const std::string fix = needed - need.kernels <= need.may_take
                              ? "a smaller --attention-workspace, --micro-batch or --seq-len, or fewer ranks on the "
                                "device"
                              : "a smaller model, --micro-batch or --seq-len, --recompute block, or fewer ranks on "
                                "the device";
  throw UserError(found,
                  fmt::format("at most {}, its share of what is free (the device has {} in all)", gib(need.may_take),
                              gib(memory.total)),
                  fix);
}

std::int64_t memory_share(std::span<const DeviceView> views, std::size_t rank) {
  std::int64_t sharing = 0, free = views[rank].free;
  for (const DeviceView& view : views) {
    if (view.device != views[rank].device) continue;
    ++sharing;
    // A rank that read the free memory before another rank made its context saw more than there is now.
    free = std::min(free, view.free);
  }
  return std::max<std::int64_t>(1, free / sharing);
}

std::int64_t cudnn_backward_workspace(const graph::AttentionBackward& op) {
  constexpr std::int64_t kElement = size_of(DType::bf16), kConstant = 256;
  const std::int64_t scores = op.batch * op.heads * round_up(op.seq, 64) * round_up(op.seq, 128) * kElement;
  const std::int64_t of_keys = op.batch * op.heads * op.seq * op.head_dim * kElement;
  return kConstant + scores + (op.heads == op.kv_heads ? 0 : 2 * of_keys);
}

std::int64_t attention_scratch_bytes(const plan::Plan& plan, std::int64_t most_workspace) {
  std::int64_t sum = 0;
  for (const plan::StreamPlan& stream : plan.streams) {
    if (!stream.stream.compute) continue;
    std::int64_t most = 0;
    for (const plan::Entry& entry : stream.entries) {
      most = std::max(most, scratch_bytes(*plan.graph, plan.graph->task(entry.task), most_workspace));
    }
    sum += most;
  }
  return sum;
}

std::int64_t row_segments_bytes(const plan::Plan& plan) {
  std::int64_t most = 0;
  for (const graph::Task& task : plan.graph->tasks()) {
    const auto* op = std::get_if<graph::ExchangeRows>(&task.operation);
    if (op == nullptr) continue;
    const graph::View& rows = graph::NamedAccesses<graph::ExchangeRows>(task)["in"].view;
    most = std::max(most, row_segments_bytes(op->most, op->count, plan.graph->tensor(rows.tensor).dtype));
  }
  return most;
}

}  // namespace weft::execute
