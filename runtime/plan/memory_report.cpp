#include "runtime/plan/memory_report.h"

#include <algorithm>
#include <vector>

#include "graph/analysis.h"

namespace weft::plan {

MemoryReport memory_report(const Plan& plan) {
  const graph::Graph& graph = *plan.graph;
  const graph::Liveness live = graph::liveness(graph, plan.sequence);
  MemoryReport report;
  report.state = live.state_bytes;
  report.arena = plan.scratch_bytes;
  std::array<std::vector<std::int64_t>, graph::kRoles> change;  // by role and position
  for (auto& of_role : change) of_role.resize(plan.sequence.size() + 1, 0);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const graph::Tensor& tensor = graph.tensors()[i];
    const auto role = static_cast<std::size_t>(tensor.role);
    const graph::Lifetime& life = live.lifetimes[i];
    if (graph::is_state(tensor.role)) {
      report.bytes[role] += tensor.bytes();
    } else if (life.first >= 0) {
      change[role][static_cast<std::size_t>(life.first)] += tensor.bytes();
      change[role][static_cast<std::size_t>(life.last) + 1] -= tensor.bytes();
    }
  }
  for (std::size_t role = 0; role < graph::kRoles; ++role) {
    if (graph::is_state(static_cast<graph::Role>(role))) continue;
    std::int64_t bytes = 0;
    for (const std::int64_t delta : change[role]) report.bytes[role] = std::max(report.bytes[role], bytes += delta);
  }
  return report;
}

}  // namespace weft::plan
