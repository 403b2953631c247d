#include "runtime/execute/device/attention_workspace.h"

#include <algorithm>
#include <variant>

#include "base/dtype.h"
#include "graph/named_accesses.h"
#include "graph/operation.h"
#include "runtime/plan/plan.h"

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
  if (graph.tensor(q.tensor).dtype != DType::bf16 || op->window > 0 || op->documents) return sums;
  const std::int64_t workspace = cudnn_backward_workspace(*op);
  return workspace > most_workspace ? sums : sums + workspace;
}

}  // namespace

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

}  // namespace weft::execute
