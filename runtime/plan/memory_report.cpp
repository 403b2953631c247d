#include "runtime/plan/memory_report.h"

#include <algorithm>
#include <vector>

#include "graph/analysis.h"

namespace weft {

MemoryReport memory_report(const Plan& plan) {
  const Graph& graph = *plan.graph;
  const Liveness live = liveness(graph, plan.sequence);
  MemoryReport report;
  report.state = live.state_bytes;
  report.arena = plan.scratch_bytes;
  std::array<std::vector<std::int64_t>, kRoles> change;  // by role and position
  for (auto& of_role : change) of_role.resize(plan.sequence.size() + 1, 0);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    const auto role = static_cast<std::size_t>(tensor.role);
    const Lifetime& life = live.lifetimes[i];
    if (is_state(tensor.role)) {
      report.bytes[role] += tensor.bytes();
    } else if (life.first >= 0) {
      change[role][static_cast<std::size_t>(life.first)] += tensor.bytes();
      change[role][static_cast<std::size_t>(life.last) + 1] -= tensor.bytes();
    }
  }
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (is_state(static_cast<Role>(role))) continue;
    std::int64_t bytes = 0;
    for (const std::int64_t delta : change[role]) report.bytes[role] = std::max(report.bytes[role], bytes += delta);
  }
  return report;
}

}  // namespace weft
