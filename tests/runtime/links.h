// Links of channels and the simulation of one plan, for tests of the simulator and of policies.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "graph/operation.h"
#include "runtime/simulate/simulator.h"

namespace weft::testing {

/// "begin-end" of a task, from the begin of its step.
inline std::string time_of(const plan::Plan& plan, const plan::StepTrace& step, const std::string& task) {
  const plan::Position at = plan.position[plan.graph->find_task(task).index()];
  const plan::TaskTime time = step.times[at.stream.index()][at.entry];
  return std::to_string(time.begin - step.begin) + "-" + std::to_string(time.end - step.begin);
}

/// Every channel has a link of its own.
inline std::vector<int> own_links() {
  std::vector<int> links(graph::kAxisChannels);
  std::iota(links.begin(), links.end(), 0);
  return links;
}

/// All channels share link `link`.
inline std::vector<int> one_link(int link = 0) {
  return std::vector<int>(graph::kAxisChannels, link);
}

inline simulate::Simulation simulate_plan(const plan::Plan& plan, const cost::TaskCosts& costs,
                                          const cost::Machine& machine, const simulate::SimulationOptions& options) {
  const plan::Plan* const one = &plan;
  return simulate::simulate({&one, 1}, {&costs, 1}, machine, options);
}

}  // namespace weft::testing
