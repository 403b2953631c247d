// Simulated steps of pipelines, their idle time and the activations that their ranks keep, for tests of policies.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/simulator.h"
#include "tests/runtime/links.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::testing {

inline void expect_safe(const std::vector<plan::Plan>& plans) {
  for (const plan::Violation& violation : plan::check(pointers_to(plans))) ADD_FAILURE() << violation.message;
}

/// The plans of a policy, which pass the checker.
inline std::vector<plan::Plan> checked_plans(graph::Classes classes, const std::string& policy,
                                             const policy::PolicyOptions& options = {}) {
  SCOPED_TRACE(policy);
  std::vector<plan::Plan> plans = policy::compile(classes, *policy::make_policy(policy), options);
  expect_safe(plans);
  return plans;
}

/// The same of orders.
inline std::vector<plan::Plan> checked_plans_of(graph::Classes classes, const std::vector<plan::Order>& orders) {
  std::vector<plan::Plan> plans;
  for (std::size_t k = 0; k < orders.size(); ++k) plans.push_back(plan::make_plan(classes[k], orders[k], "tried"));
  expect_safe(plans);
  return plans;
}

inline std::int64_t most_scratch(const std::vector<plan::Plan>& plans) {
  return std::ranges::max(plans, {}, &plan::Plan::scratch_bytes).scratch_bytes;
}

/// A step that runs once; every channel has the link that is given, or one of its own.
inline simulate::Simulation simulated(std::span<const plan::Plan> plans, std::span<const cost::TaskCosts> costs,
                                      const std::vector<int>& links = own_links()) {
  simulate::SimulationOptions options;
  options.grid.pipe = std::ssize(plans);
  options.link_of_channel = links;
  return simulate::simulate(pointers_to({plans.begin(), plans.end()}), costs, {}, options);
}

/// The shape with the policy's chunks.
inline PipelineShape shaped_for(const std::string& policy, PipelineShape shape) {
  shape.chunks = policy::make_policy(policy)->chunks();
  return shape;
}

/// Idle times of a step that runs once.
struct IdleTimes {
  double of_step = 0;   // the step without the work of a rank, which all ranks have the same of
  double of_ranks = 0;  // the most of: the time from a rank's first computation to its last, without its work
};

inline IdleTimes idle_times(const PipelineToy& toy, const std::vector<plan::Plan>& plans) {
  const std::vector<cost::TaskCosts> costs = toy.costs();
  const simulate::Simulation result = simulated(plans, costs);
  IdleTimes idle;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const plan::StepTrace& step = result.ranks[k].steps.back();
    double first = result.step_ns, last = 0, work = 0;
    for (std::size_t i = 0; i < plans[k].graph->tasks().size(); ++i) {
      const plan::Position at = plans[k].position[i];
      if (!plans[k].streams[at.stream.index()].stream.compute) continue;
      const plan::TaskTime time = step.times[at.stream.index()][at.entry];
      first = std::min(first, static_cast<double>(time.begin - step.begin));
      last = std::max(last, static_cast<double>(time.end - step.begin));
      work += costs[k].ns[i];
    }
    idle.of_step = result.step_ns - work;
    idle.of_ranks = std::max(idle.of_ranks, last - first - work);
  }
  return idle;
}

/// A toy that has the policy's chunks, and its plans by the toy's prices.
struct ScheduledToy {
  ScheduledToy(const std::string& name, const PipelineShape& shape)
      : toy(shaped_for(name, shape)), plans(checked_plans(toy.classes(), name, {.cost_model = toy.prices()})) {}
  IdleTimes idle() const { return idle_times(toy, plans); }

  PipelineToy toy;
  std::vector<plan::Plan> plans;
};

/// The most pairs of a virtual stage and a micro-batch whose forward pass a rank has begun and of which a backward task
/// is to come.
inline std::size_t most_activations(const plan::Plan& plan) {
  using Pass = std::pair<std::int32_t, std::int32_t>;
  const auto computes = [](const graph::Task& task) {
    return task.stage >= 0 && !graph::is_collective(task.operation);
  };
  std::map<Pass, std::size_t> left;
  for (const graph::Task& task : plan.graph->tasks()) {
    if (computes(task) && task.phase == graph::Phase::backward) ++left[{task.stage, task.micro_batch}];
  }
  std::map<Pass, bool> alive;
  std::size_t now = 0, most = 0;
  for (const graph::TaskId id : plan.sequence) {
    const graph::Task& task = plan.graph->task(id);
    if (!computes(task)) continue;
    const Pass pass(task.stage, task.micro_batch);
    if (task.phase == graph::Phase::forward && !std::exchange(alive[pass], true)) most = std::max(most, ++now);
    if (task.phase == graph::Phase::backward && --left[pass] == 0) --now;
  }
  return most;
}

/// The reasons' texts of a rank's compute stream, each once where it repeats.
inline std::vector<std::string> reasons_of(const plan::Plan& plan) {
  std::vector<std::string> reasons;
  for (const plan::Entry& entry : plan.streams.front().entries) {
    const std::string text = plan::to_string(plan.reasons[entry.reason]);
    if (reasons.empty() || reasons.back() != text) reasons.push_back(text);
  }
  return reasons;
}

}  // namespace weft::testing
