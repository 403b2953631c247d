// The simulation of one plan, for tests of steps with a single class.
#pragma once

#include "runtime/simulate/simulator.h"

namespace weft::testing {

inline simulate::Simulation simulate_plan(const plan::Plan& plan, const cost::TaskCosts& costs,
                                          const cost::Machine& machine, const simulate::SimulationOptions& options) {
  const plan::Plan* const one = &plan;
  return simulate::simulate({&one, 1}, {&costs, 1}, machine, options);
}

}  // namespace weft::testing
