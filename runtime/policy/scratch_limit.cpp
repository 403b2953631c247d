#include "runtime/policy/scratch_limit.h"

#include <algorithm>

namespace weft::policy {

std::int64_t state_bytes(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Tensor& tensor : graph.tensors()) bytes += graph::is_state(tensor.role) ? tensor.bytes() : 0;
  return bytes;
}

std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options) {
  if (options.memory <= 0) return options.memory_limit;
  const std::int64_t left = std::max<std::int64_t>(1, options.memory - state_bytes(graph));
  return options.memory_limit > 0 ? std::min(left, options.memory_limit) : left;
}

}  // namespace weft::policy
