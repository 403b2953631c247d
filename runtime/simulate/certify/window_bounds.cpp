#include "runtime/simulate/certify/window_bounds.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/simulate/certify/certificate.h"
#include "runtime/simulate/open_problem.h"

namespace weft::simulate {
namespace {

constexpr std::size_t kMostProvedTasks = 20'000;

}  // namespace

void prove_windows(const Problem& problem, std::span<Report> reports, ProblemBounds* own) {
  std::map<std::vector<std::uint64_t>, double> proved;  // by the classes' graphs
  const auto prove = [&](graph::Classes classes, std::span<const cost::TaskCosts> costs) {
    std::vector<std::uint64_t> graphs;
    std::size_t tasks = 0;
    for (const auto& graph : classes) {
      graphs.push_back(graph->fingerprint());
      tasks += graph->tasks().size();
    }
    if (tasks > kMostProvedTasks) return 0.0;
    const auto [found, is_new] = proved.try_emplace(graphs, 0);
    if (is_new) found->second = certify_by_windows(open_graph_of(classes, costs, problem, "")).bound_ns;
    return found->second;
  };
  if (own != nullptr) own->bounds.windows = prove(own->graphs, own->costs);
  for (Report& report : reports) {
    if (report.planned()) report.bounds.windows = prove(report.graphs(), report.costs);
  }
}

}  // namespace weft::simulate
