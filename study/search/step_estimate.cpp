#include "study/search/step_estimate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/lower.h"
#include "runtime/plan/memory_report.h"
#include "runtime/policy/compile_plan.h"
#include "runtime/simulate/simulator.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::study {
namespace {

// In fewer layers the first and the last, which have less to overlap with, weigh too much.
constexpr std::int64_t kFewLayers = 3, kMoreLayers = 5, kFewBatches = 2, kMoreBatches = 3;

std::array<std::int64_t, 2> sizes(std::int64_t few, std::int64_t more, std::int64_t all) {
  if (all <= more) return {all, all};
  return {few, more};
}

}  // namespace

StepEstimate::StepEstimate(const StepFamily& family, policy::NamedPolicy policy)
    : family_(family),
      policy_(std::move(policy)),
      layers_(sizes(kFewLayers, kMoreLayers, family.layers())),
      micro_batches_(sizes(kFewBatches, kMoreBatches, family.micro_batches())) {
  for (const std::int64_t layers : std::set(layers_.begin(), layers_.end())) {
    for (const std::int64_t micro_batches : std::set(micro_batches_.begin(), micro_batches_.end())) {
      simulate::PlanningProblem problem = train::planning_problem(family.run_of(layers, micro_batches, graph::kAxes));
      problem.options.memory = problem.options.memory_limit = 0;
      steps_.push_back({layers, micro_batches,
                        std::make_shared<const plan::Plan>(
                            policy::compile_plan(problem.graph, *policy_, problem.options, problem.rewrites))});
    }
  }
}

template <class Value>
double StepEstimate::extrapolated(const Value& value) const {
  // Linear in layers, then in micro-batches.
  const auto along_layers = [&](std::int64_t micro_batches) {
    const auto of = [&](std::int64_t layers) {
      const auto found = std::ranges::find_if(
          steps_, [&](const SmallStep& step) { return step.layers == layers && step.micro_batches == micro_batches; });
      return static_cast<double>(value(*found));
    };
    const double few = of(layers_[0]);
    if (layers_[0] == layers_[1]) return few;
    return few + (of(layers_[1]) - few) * static_cast<double>(family_.layers() - layers_[0]) /
                     static_cast<double>(layers_[1] - layers_[0]);
  };
  const double few = along_layers(micro_batches_[0]);
  if (micro_batches_[0] == micro_batches_[1]) return few;
  return few + (along_layers(micro_batches_[1]) - few) *
                   static_cast<double>(family_.micro_batches() - micro_batches_[0]) /
                   static_cast<double>(micro_batches_[1] - micro_batches_[0]);
}

std::int64_t StepEstimate::memory_bytes() const {
  return static_cast<std::int64_t>(
      extrapolated([](const SmallStep& step) { return plan::memory_report(*step.plan).total(); }));
}

double StepEstimate::step_ns(const std::array<graph::Axis, 4>& order) const {
  return extrapolated([&](const SmallStep& step) {
    const simulate::PlanningProblem problem =
        train::planning_problem(family_.run_of(step.layers, step.micro_batches, order), step.plan->graph);
    const cost::TaskCosts costs = policy::costs_of(*step.plan->graph, problem.options);
    return simulate::simulate(*step.plan, costs, problem.machine, simulate::simulation_options(problem)).step_ns;
  });
}

std::optional<std::int64_t> memory_within(const StepFamily& family, const StepEstimate& fast, std::int64_t limit,
                                          std::int64_t& least_bytes) {
  least_bytes = fast.memory_bytes();
  for (const char* name : {"axonn", "serial"}) {
    if (limit <= 0 || least_bytes <= limit) break;
    least_bytes = std::min(least_bytes, StepEstimate(family, policy::named_policy(name)).memory_bytes());
  }
  return limit <= 0 || least_bytes <= limit ? std::optional(least_bytes) : std::nullopt;
}

}  // namespace weft::study
