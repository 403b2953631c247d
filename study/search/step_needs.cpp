#include "study/search/step_needs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "graph/analysis.h"
#include "graph/task_signature.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/simulate/bounds.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::size_t kCorners = 4;

std::int64_t layers_of(std::size_t corner) {
  return corner % 2 == 0 ? 1 : 2;
}

std::int64_t micro_batches_of(std::size_t corner) {
  return corner < 2 ? 1 : 2;
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
  std::size_t size() const { return index_.size(); }
  graph::Graph build() && { return std::move(builder_).build(); }

 private:
  graph::GraphBuilder builder_{graph::Arguments::of_any_form};
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace

double Growing::of(std::int64_t layers, std::int64_t micro_batches) const {
  const auto more_layers = static_cast<double>(layers - 1), more_batches = static_cast<double>(micro_batches - 1);
  return at[0] + more_layers * (at[1] - at[0]) + more_batches * (at[2] - at[0]) +
         more_layers * more_batches * (at[3] - at[2] - at[1] + at[0]);
}

StepFamily::StepFamily(const train::ResolvedRun& run, const Choice& choice) : run_(run) {
  run_.config = with_choice(std::move(run_.config), choice);
  KindsOfTasks kinds;
  for (std::size_t corner = 0; corner < kCorners; ++corner) {
    // A step of one micro-batch needs no graph of two, whose factor in of() is zero.
    if (layers_of(corner) > layers() || micro_batches_of(corner) > micro_batches()) continue;
    const simulate::Problem small =
        train::planning_problem(one_stage_run_of(layers_of(corner), micro_batches_of(corner), choice.grid.order));
    const auto graph = plan::rewrite(small.classes.front(), small.rewrites, small.options.weight_layouts);
    for (const graph::Task& task : graph->tasks()) {
      const std::size_t kind = kinds.index_of(*graph, task);
      counts_.resize(kinds.size());
      counts_[kind].at[corner] += 1;
    }
    state_bytes_.at[corner] = static_cast<double>(policy::state_bytes(*graph));
    kept_bytes_.at[corner] = static_cast<double>(kept_at_loss(*graph));
  }
  kinds_ = std::make_shared<const graph::Graph>(std::move(kinds).build());
}

std::int64_t StepFamily::micro_batches() const {
  return train::accumulation(run_.config);
}

train::ResolvedRun StepFamily::run_of(std::int64_t layers, std::int64_t micro_batches,
                                      const std::array<graph::Axis, 4>& order) const {
  train::ResolvedRun run = run_;
  run.config.model.layers = layers;
  run.config.global_batch = micro_batches * run.config.micro_batch * run.config.grid.batch_ranks();
  run.config.grid.order = order;
  return run;
}

train::ResolvedRun StepFamily::one_stage_run_of(std::int64_t layers, std::int64_t micro_batches,
                                                const std::array<graph::Axis, 4>& order) const {
  train::ResolvedRun run = run_of(layers, micro_batches, order);
  run.config.grid.pipe = 1;
  run.config.pipeline = {};
  return run;
}

StepNeeds StepFamily::needs(const std::array<graph::Axis, 4>& order) const {
  const simulate::Problem problem = train::planning_problem(run_of(layers(), micro_batches(), order), {kinds_});
  cost::TaskCosts costs = policy::costs_of(*kinds_, problem.options);
  StepNeeds needs;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const double count = counts_[i].of(layers(), micro_batches());
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
  const simulate::Bounds bounds =
      simulate::lower_bounds({&kinds_, 1}, {&costs, 1}, problem.machine, problem.options.compute_streams,
                             simulate::simulation_options(problem).link_of_channel);
  // Not the critical path: a kind's tasks are summed up here, although streams may share them.
  needs.least_ns = std::max({bounds.work, bounds.energy, bounds.contention});
  needs.least_bytes =
      static_cast<std::int64_t>(state_bytes_.of(layers(), micro_batches()) + kept_bytes_.of(layers(), micro_batches()));
  return needs;
}

}  // namespace weft::study
