#include "runtime/simulate/certify/window_bounds.h"

#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/simulate/certify/certificate.h"
#include "runtime/simulate/open_problem.h"

namespace weft::simulate {
namespace {

constexpr std::size_t kMostProvedTasks = 20'000;

}  // namespace

void prove_windows(const PlanningProblem& problem, std::span<PlanReport> reports, ProblemBounds* own) {
  std::map<std::uint64_t, double> proved;  // by graph
  const auto prove = [&](const graph::Graph& graph, const cost::TaskCosts& costs) {
    if (graph.tasks().size() > kMostProvedTasks) return 0.0;
    const auto [found, is_new] = proved.try_emplace(graph.fingerprint(), 0);
    if (is_new) found->second = certify_by_windows(open_graph_of(graph, costs, problem, "")).bound_ns;
    return found->second;
  };
  if (own != nullptr) own->bounds.windows = prove(*own->graph, own->costs);
  for (PlanReport& report : reports) {
    if (report.planned()) report.bounds.windows = prove(*report.plan->graph, report.costs);
  }
}

void prove_windows(const JointProblem& problem, JointReport& report) {
  if (!report.planned()) return;
  std::size_t tasks = 0;
  for (const auto& plan : report.plans) tasks += plan->graph->tasks().size();
  if (tasks <= kMostProvedTasks)
    report.bounds.windows = certify_by_windows(open_graph_of(report, problem, "")).bound_ns;
}

}  // namespace weft::simulate
