#include "runtime/simulate/path_pieces.h"

#include <algorithm>

namespace weft::simulate {
namespace {

std::vector<graph::TaskId> critical_tasks(const SimulatedStep& step) {
  std::vector<graph::TaskId> chain;
  graph::TaskId last;
  for (std::size_t i = 0; i < step.graph.tasks().size(); ++i) {
    if (!last.valid() || step.end(graph::TaskId(i)) > step.end(last)) last = graph::TaskId(i);
  }
  while (last.valid()) {
    chain.push_back(last);
    graph::TaskId latest;
    for (const graph::TaskId other : {step.last_input(last), step.before_on_stream(last), step.last_added(last).from}) {
      if (other.valid() && (!latest.valid() || step.end(other) > step.end(latest))) latest = other;
    }
    last = latest;
  }
  std::ranges::reverse(chain);
  return chain;
}

}  // namespace

std::vector<PathPiece> path_pieces(const SimulatedStep& step) {
  std::vector<PathPiece> path;
  double until = 0;
  for (const graph::TaskId task : critical_tasks(step)) {
    const std::string kind = kind_of(step.graph, step.graph.task(task));
    const double ns = std::max(0.0, step.end(task) - std::max(until, 0.0));
    until = std::max(until, step.end(task));
    const graph::Phase phase = step.graph.task(task).phase;
    if (path.empty() || path.back().kind != kind || path.back().phase != phase) {
      path.push_back({kind, phase, step.name(task), "", 0, 0});
    }
    path.back().last = step.name(task);
    path.back().ns += ns;
    ++path.back().tasks;
  }
  return path;
}

}  // namespace weft::simulate
