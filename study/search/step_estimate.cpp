#include "study/search/step_estimate.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/task_signature.h"
#include "ops/pipeline_layout.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/builtin/list_policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/report.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

// A tight memory asks for few, many micro-batches for more. More still would take other collectives' bandwidth.
constexpr std::int64_t kGathersAhead[] = {2, 8};

StepSizes::Pair few_and_more(const StepSizes::Pair& sizes, std::int64_t all) {
  if (all <= sizes[1]) return {all, all};
  return sizes;
}

double along(const StepSizes::Pair& sizes, std::int64_t all, double few, double more) {
  if (sizes[0] == sizes[1]) return few;
  return few + (more - few) * static_cast<double>(all - sizes[0]) / static_cast<double>(sizes[1] - sizes[0]);
}

/// Bytes of scratch in use at the end of the last forward pass, while the task runs that starts its backward pass.
std::int64_t kept_at_loss(const graph::Graph& graph) {
  graph::TaskId last;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Operation& operation = graph.tasks()[i].operation;
    if (std::holds_alternative<graph::CrossEntropy>(operation) ||
        std::holds_alternative<graph::VocabCrossEntropy>(operation)) {
      last = graph::TaskId(i);
    }
  }
  return last.valid() ? graph::bytes_kept_at(graph, last) : 0;
}

/// Collects one task of each signature, in a graph without edges.
class KindsOfTasks {
 public:
  std::size_t index_of(const graph::Graph& graph, const graph::Task& task) {
    const std::string signature = graph::task_signature(graph, task);
    const auto [found, is_new] = index_.try_emplace(signature, index_.size());
    if (is_new) {
      std::vector<graph::Access> accesses;
      const auto access = [&](DType dtype) {
        accesses.push_back(graph::read(graph::whole(
            builder_, builder_.add_tensor(
                          {signature + (accesses.empty() ? "" : " again"), dtype, {1}, graph::Role::parameter}))));
      };
      // Cost models read the dtype of the first operand, signatures the first in floating point.
      access(task.accesses.empty() ? DType::f32 : graph.tensor(task.accesses.front().view.tensor).dtype);
      access(graph::signature_dtype(graph, task));
      builder_.add_task({signature, task.operation, std::move(accesses)});
    }
    return found->second;
  }
  graph::Graph build() && { return std::move(builder_).build(); }

 private:
  graph::GraphBuilder builder_{graph::Arguments::of_any_form};
  std::map<std::string, std::size_t, std::less<>> index_;
};

train::ResolvedRun run_with(train::ResolvedRun run, const StepSetup& setup) {
  run.config = with_setup(std::move(run.config), setup);
  return run;
}

std::int64_t layers_of(const train::ResolvedRun& run) {
  return run.config.model.layers;
}

std::shared_ptr<const graph::Graph> first_graph(const simulate::Problem& problem) {
  return plan::rewrite(problem.classes.front(), problem.rewrites, problem.options.weight_layouts);
}

/// The values of all small steps, extrapolated.
template <class Value>
double extrapolated(const StepSizes& sizes, std::size_t steps, const Value& value) {
  std::vector<double> values;
  for (std::size_t step = 0; step < steps; ++step) values.push_back(value(step));
  return sizes.extrapolated(values);
}

double scheduled_by_rank(const std::shared_ptr<const graph::Graph>& graph, const cost::TaskCosts& costs,
                         const policy::PolicyOptions& options) {
  policy::ListScheduler scheduler(policy::ClassTasks({&graph, 1}, {&costs, 1}, options.compute_streams), options,
                                  {&options.memory_limit, 1});
  return scheduler.run(policy::upward_rank(scheduler.tasks()));
}

}  // namespace

StepSizes::StepSizes(std::int64_t layers, std::int64_t micro_batches, const Pair& of_layers,
                     const Pair& of_micro_batches)
    : layers_(layers),
      micro_batches_(micro_batches),
      of_layers_(few_and_more(of_layers, layers)),
      of_micro_batches_(few_and_more(of_micro_batches, micro_batches)) {}

std::vector<StepSizes::Size> StepSizes::all() const {
  std::vector<Size> sizes;
  for (const std::int64_t micro_batches : std::set(of_micro_batches_.begin(), of_micro_batches_.end())) {
    for (const std::int64_t layers : std::set(of_layers_.begin(), of_layers_.end()))
      sizes.push_back({layers, micro_batches});
  }
  return sizes;
}

double StepSizes::extrapolated(const std::vector<double>& values) const {
  const std::size_t of_layers = of_layers_[0] == of_layers_[1] ? 1 : 2;
  const auto along_layers = [&](std::size_t first) {
    return along(of_layers_, layers_, values[first], values[first + of_layers - 1]);
  };
  return along(of_micro_batches_, micro_batches_, along_layers(0), along_layers(values.size() - of_layers));
}

train::ResolvedRun small_run(train::ResolvedRun run, const StepSizes::Size& size) {
  run.config.model.layers = size.layers;
  run.config.global_batch = size.micro_batches * run.config.micro_batch * run.config.grid.batch_ranks();
  return run;
}

StepBounds::StepBounds(const train::ResolvedRun& run, const StepSetup& setup)
    : run_(run_with(run, setup)), sizes_(StepSizes::exact(layers_of(run_), train::accumulation(run_.config))) {
  KindsOfTasks kinds;
  for (const StepSizes::Size& size : sizes_.all()) {
    train::ResolvedRun small = small_run(run_, size);
    small.config.grid.pipe = 1;
    small.config.pipeline = {};
    const auto graph = first_graph(train::planning_problem(small));
    const std::size_t step = state_bytes_.size();
    for (const graph::Task& task : graph->tasks()) {
      const std::size_t kind = kinds.index_of(*graph, task);
      if (kind == counts_.size()) counts_.emplace_back(sizes_.all().size());
      counts_[kind][step] += 1;
    }
    state_bytes_.push_back(static_cast<double>(policy::state_bytes(*graph)));
    kept_bytes_.push_back(static_cast<double>(kept_at_loss(*graph)));
    graphs_.push_back(graph);
  }
  kinds_ = std::make_shared<const graph::Graph>(std::move(kinds).build());
}

StepNeeds StepBounds::needs(const AxisOrder& order) const {
  train::ResolvedRun run = run_;
  run.config.grid.order = order;
  const simulate::Problem problem = train::planning_problem(run, {kinds_});
  cost::TaskCosts costs = policy::costs_of(*kinds_, problem.options);
  StepNeeds needs;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const double count = sizes_.extrapolated(counts_[i]);
    needs.tasks += std::llround(count);
    for (std::vector<double>* values : {&costs.ns, &costs.cpu_ns, &costs.beside_ns, &costs.link_ns}) {
      if (!values->empty()) (*values)[i] *= count;
    }
    if (const graph::Channel* channel = graph::channel_of(kinds_->tasks()[i].operation)) {
      needs.sent_ns.at(static_cast<std::size_t>(*channel)) += costs.ns[i];
    } else {
      needs.compute_ns += costs.ns[i];
    }
  }
  const simulate::Bounds bounds = simulate::lower_bounds(
      {&kinds_, 1}, {&costs, 1}, problem.machine, problem.options.compute_streams, problem.options.link_of_channel);
  const std::int64_t classes = run.config.grid.pipe;
  // Not the critical path: a kind's tasks are summed up here, although streams may share them.
  needs.least_ns = std::max({bounds.work, bounds.energy, bounds.contention}) / static_cast<double>(classes);
  needs.least_bytes =
      static_cast<std::int64_t>(sizes_.extrapolated(state_bytes_) + sizes_.extrapolated(kept_bytes_)) / classes;
  return needs;
}

double StepBounds::skimmed_ns(const AxisOrder& order) const {
  const std::vector<StepSizes::Size> sizes = sizes_.all();
  return extrapolated(sizes_, sizes.size(), [&](std::size_t step) {
    train::ResolvedRun run = small_run(run_, sizes[step]);
    run.config.grid.order = order;
    simulate::Problem problem = train::planning_problem(run, {graphs_[step]});
    problem.options.memory_limit = 0;
    const cost::TaskCosts costs = policy::costs_of(*graphs_[step], problem.options);
    return scheduled_by_rank(graphs_[step], costs, problem.options);
  });
}

std::optional<EstimatedStep> step_by(const policy::NamedPolicy& policy, train::ResolvedRun run,
                                     const StepSizes& sizes) {
  run.set_policy(policy);
  run.config.memory = 0;  // a limit is compared with the whole step's memory
  std::vector<double> ns, bytes;
  for (const StepSizes::Size& size : sizes.all()) {
    train::ResolvedRun small = small_run(run, size);
    try {
      train::fill_in(small.config, 0);
    } catch (const UserError&) {
      return std::nullopt;  // more stages than layers
    }
    const simulate::Report report = simulate::report_plan(train::planning_problem(small), policy);
    if (!report.planned()) return std::nullopt;
    ns.push_back(report.step_ns());
    bytes.push_back(static_cast<double>(report.memory_bytes()));
  }
  return EstimatedStep{sizes.extrapolated(ns), static_cast<std::int64_t>(sizes.extrapolated(bytes))};
}

StepEstimate::StepEstimate(const train::ResolvedRun& run, const StepSetup& setup,
                           std::span<const policy::NamedPolicy> policies, std::int64_t limit)
    : run_(run_with(run, setup)),
      policies_(policies),
      limit_(limit),
      sizes_(layers_of(run_), train::accumulation(run_.config)) {
  if (!policies_.empty()) return;
  static const policy::NamedPolicy axonn = policy::named_policy("axonn"), serial = policy::named_policy("serial"),
                                   program = policy::named_policy("program");
  for (const StepSizes::Size& size : sizes_.all())
    steps_.push_back({size, first_graph(train::planning_problem(run_of(size, graph::kAxes)))});
  lean_ = lean_plan_by(*axonn);
  if (limit > 0 && lean_.total > limit) {
    if (LeanPlan other = lean_plan_by(*serial); other.total < lean_.total) lean_ = std::move(other);
  }
  std::int64_t whole_bytes = 0;
  program_ = plans_by(*program, whole_bytes);
  if (limit > 0 && whole_bytes > limit) program_.clear();
}

train::ResolvedRun StepEstimate::run_of(const StepSizes::Size& size, const AxisOrder& order) const {
  train::ResolvedRun run = small_run(run_, size);
  run.config.grid.order = order;
  return run;
}

std::vector<plan::Plan> StepEstimate::plans_by(const policy::Policy& policy, std::int64_t& whole_bytes) const {
  std::vector<plan::Plan> plans;
  for (const SmallStep& step : steps_) {
    simulate::Problem problem = train::planning_problem(run_of(step.size, graph::kAxes), {step.graph});
    problem.options.memory = problem.options.memory_limit = 0;
    plans.push_back(policy::compile_plan(step.graph, policy, problem.options));
  }
  whole_bytes = static_cast<std::int64_t>(extrapolated(sizes_, plans.size(), [&](std::size_t step) {
    return static_cast<double>(plan::memory_report(plans[step]).total());
  }));
  return plans;
}

StepEstimate::LeanPlan StepEstimate::lean_plan_by(const policy::Policy& policy) const {
  LeanPlan lean;
  for (const plan::Plan& plan : plans_by(policy, lean.total)) lean.scratch.push_back(plan.scratch_bytes);
  return lean;
}

double StepEstimate::program_ns(std::size_t step, const AxisOrder& order) const {
  const SmallStep& small = steps_[step];
  const simulate::Problem problem = train::planning_problem(run_of(small.size, order), {small.graph});
  const cost::TaskCosts costs = policy::costs_of(*program_[step].graph, problem.options);
  const plan::Plan* const plan = &program_[step];
  return simulate::simulate({&plan, 1}, {&costs, 1}, problem.machine, simulate::simulation_options(problem)).step_ns;
}

double StepEstimate::makespan(std::size_t step, const AxisOrder& order, std::int64_t gathers_ahead,
                              bool by_rank) const {
  static const std::vector<policy::LhsRule> rules =
      policy::parse_lhs_rules("memory+release+critical+unlock+consumer+program");
  const SmallStep& small = steps_[step];
  const graph::Graph& graph = *small.graph;
  simulate::Problem problem = train::planning_problem(run_of(small.size, order), {small.graph});
  problem.options.gathers_ahead = gathers_ahead;
  problem.options.memory_limit = 0;
  if (limit_ > 0 && lean_.total < limit_) {
    const double share = static_cast<double>(small.size.layers) / static_cast<double>(layers_of(run_));
    problem.options.memory_limit =
        lean_.scratch[step] + static_cast<std::int64_t>(share * static_cast<double>(limit_ - lean_.total));
  }
  const cost::TaskCosts costs = policy::costs_of(graph, problem.options);
  if (by_rank) return scheduled_by_rank(small.graph, costs, problem.options);
  policy::ListScheduler scheduler(policy::ClassTasks({&small.graph, 1}, {&costs, 1}, problem.options.compute_streams),
                                  problem.options, {&problem.options.memory_limit, 1});
  policy::RuleChooser chooser(scheduler.tasks(), rules);
  return scheduler.run(chooser);
}

std::optional<EstimatedStep> StepEstimate::step_by(const policy::NamedPolicy& policy, const AxisOrder& order) const {
  train::ResolvedRun run = run_;
  run.config.grid.order = order;
  const std::int64_t layers = layers_of(run), pipe = run.config.grid.pipe, stages = policy->chunks().stages(pipe);
  if (stages > layers) return std::nullopt;
  const bool small_enough = layers <= 2 * stages;
  const std::vector<std::int64_t> of_stages =
      ops::balanced_layout(run.config.model, run.config.seq_len, pipe, policy->chunks()).layers;
  const StepSizes sizes(small_enough ? layers : stages * *std::ranges::max_element(of_stages),
                        train::accumulation(run.config), {stages, small_enough ? layers : 2 * stages},
                        {2 * pipe, 3 * pipe});
  return study::step_by(policy, std::move(run), sizes);
}

std::optional<EstimatedStep> StepEstimate::best(const AxisOrder& order, const std::function<bool()>& is_late) const {
  std::optional<EstimatedStep> best;
  const auto fits = [&](const EstimatedStep& step) { return limit_ <= 0 || step.bytes <= limit_; };
  const auto take = [&](const EstimatedStep& step) {
    const bool better = !best || (fits(step) != fits(*best) ? fits(step)
                                  : fits(step)              ? step.ns < best->ns
                                                            : step.bytes < best->bytes);
    if (better) best = step;
  };
  for (const policy::NamedPolicy& policy : policies_) {
    if (best && is_late && is_late()) break;
    if (const std::optional<EstimatedStep> step = step_by(policy, order)) take(*step);
  }
  if (!policies_.empty()) return best;
  if (limit_ > 0 && lean_.total > limit_) return EstimatedStep{.bytes = lean_.total};
  const auto take_extrapolated = [&](const auto& ns_of) {
    take({extrapolated(sizes_, steps_.size(), ns_of), lean_.total});
  };
  for (const std::int64_t ahead : kGathersAhead) {
    for (const bool by_rank : {true, false})
      take_extrapolated([&](std::size_t step) { return makespan(step, order, ahead, by_rank); });
  }
  if (!program_.empty()) take_extrapolated([&](std::size_t step) { return program_ns(step, order); });
  return best;
}

}  // namespace weft::study
