#include "study/search/step_estimate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/lower.h"
#include "runtime/plan/memory_report.h"
#include "runtime/policy/builtin/lhs.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::study {
namespace {

// A tight memory asks for few, many micro-batches for more. More still would take other collectives' bandwidth.
constexpr std::int64_t kGathersAhead[] = {2, 8};

}  // namespace

StepEstimate::StepEstimate(const StepFamily& family, std::int64_t limit)
    : family_(family), limit_(limit), sizes_(family.layers(), family.micro_batches()) {
  static const policy::NamedPolicy axonn = policy::named_policy("axonn"), serial = policy::named_policy("serial"),
                                   program = policy::named_policy("program");
  for (const SmallSteps::Size& size : sizes_.sizes()) {
    const simulate::Problem problem =
        train::planning_problem(family.one_stage_run_of(size.layers, size.micro_batches, graph::kAxes));
    steps_.push_back({size, plan::rewrite(problem.classes.front(), problem.rewrites, problem.options.weight_layouts)});
  }
  lean_ = lean_plan_by(*axonn);
  if (limit > 0 && lean_.total > limit) {
    if (LeanPlan other = lean_plan_by(*serial); other.total < lean_.total) lean_ = std::move(other);
  }
  std::int64_t whole_bytes = 0;
  program_ = plans_by(*program, whole_bytes);
  if (limit > 0 && whole_bytes > limit) program_.clear();
}

std::vector<plan::Plan> StepEstimate::plans_by(const policy::Policy& policy, std::int64_t& whole_bytes) const {
  std::vector<plan::Plan> plans;
  std::vector<double> totals;
  for (const SmallStep& step : steps_) {
    simulate::Problem problem =
        train::planning_problem(family_.run_of(step.size.layers, step.size.micro_batches, graph::kAxes), {step.graph});
    problem.options.memory = problem.options.memory_limit = 0;
    plans.push_back(policy::compile_plan(step.graph, policy, problem.options));
    totals.push_back(static_cast<double>(plan::memory_report(plans.back()).total()));
  }
  whole_bytes = static_cast<std::int64_t>(sizes_.extrapolated(totals));
  return plans;
}

StepEstimate::LeanPlan StepEstimate::lean_plan_by(const policy::Policy& policy) const {
  LeanPlan lean;
  for (const plan::Plan& plan : plans_by(policy, lean.total)) lean.scratch.push_back(plan.scratch_bytes);
  return lean;
}

double StepEstimate::program_ns(std::size_t step, const std::array<graph::Axis, 4>& order) const {
  const SmallStep& small = steps_[step];
  const simulate::Problem problem =
      train::planning_problem(family_.run_of(small.size.layers, small.size.micro_batches, order), {small.graph});
  const cost::TaskCosts costs = policy::costs_of(*program_[step].graph, problem.options);
  const plan::Plan* const plan = &program_[step];
  return simulate::simulate({&plan, 1}, {&costs, 1}, problem.machine, simulate::simulation_options(problem)).step_ns;
}

double StepEstimate::makespan(std::size_t step, const std::array<graph::Axis, 4>& order, std::int64_t gathers_ahead,
                              bool by_rank) const {
  static const std::vector<policy::LhsRule> rules =
      policy::parse_lhs_rules("memory+release+critical+unlock+consumer+program");
  const SmallStep& small = steps_[step];
  const graph::Graph& graph = *small.graph;
  simulate::Problem problem =
      train::planning_problem(family_.run_of(small.size.layers, small.size.micro_batches, order), {small.graph});
  problem.options.gathers_ahead = gathers_ahead;
  problem.options.memory_limit = 0;
  if (limit_ > 0 && lean_.total < limit_) {
    const double share = static_cast<double>(small.size.layers) / static_cast<double>(family_.layers());
    problem.options.memory_limit =
        lean_.scratch[step] + static_cast<std::int64_t>(share * static_cast<double>(limit_ - lean_.total));
  }
  const cost::TaskCosts costs = policy::costs_of(graph, problem.options);
  policy::ListScheduler scheduler(graph, costs, problem.options);
  if (by_rank) return scheduler.run(policy::upward_rank(graph, costs.ns));
  policy::RuleChooser chooser(scheduler.tasks(), rules);
  return scheduler.run(chooser);
}

double StepEstimate::step_ns(const std::array<graph::Axis, 4>& order) const {
  double best = std::numeric_limits<double>::infinity();
  for (const std::int64_t ahead : kGathersAhead) {
    for (const bool by_rank : {true, false}) {
      std::vector<double> values;
      for (std::size_t step = 0; step < steps_.size(); ++step) values.push_back(makespan(step, order, ahead, by_rank));
      best = std::min(best, sizes_.extrapolated(values));
    }
  }
  if (!program_.empty()) {
    std::vector<double> values;
    for (std::size_t step = 0; step < steps_.size(); ++step) values.push_back(program_ns(step, order));
    best = std::min(best, sizes_.extrapolated(values));
  }
  return best;
}

}  // namespace weft::study
