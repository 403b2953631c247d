#include "runtime/memory_report.h"

#include "graph/analysis.h"

namespace weft {

MemoryReport memory_report(const Plan& plan) {
  const Graph& graph = *plan.graph;
  const Liveness live = liveness(graph, plan.sequence);
  const auto peak = static_cast<std::int64_t>(live.peak_position);
  MemoryReport report;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    const bool alive = live.lifetimes[i].first <= peak && peak <= live.lifetimes[i].last;
    if (is_state(tensor.role) || alive) report.bytes[static_cast<std::size_t>(tensor.role)] += tensor.bytes();
  }
  report.state = live.state_bytes;
  report.scratch_peak = live.peak_bytes;
  report.arena = plan.scratch_bytes;
  return report;
}

}  // namespace weft
