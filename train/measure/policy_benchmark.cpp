#include "train/measure/policy_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/policy/catalog/policies.h"
#include "train/measure/benchmark_state.h"
#include "train/measure/bf16_products.h"
#include "train/step/device_choice.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"
#include "train/step/step_graphs.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

RunConfig every_step_traced(RunConfig config) {
  config.trace_every = 1;
  return config;
}

}  // namespace

PolicyBenchmark::PolicyBenchmark(comm::World& world, const ResolvedRun& run,
                                 const std::vector<policy::NamedPolicy>& policies, const policy::PolicyOptions& options)
    : world_(world),
      run_(with_bf16(run, bf16_of_run(world, run.config))),
      at_(graph::coordinates_of(run_.config.grid, world.rank())),
      specs_(ops::model_parameters(run_.config.model)),
      shards_(shards_of(run_.config, specs_, at_)) {
  const execute::ProgramGraph graph = train_graph(run_.config, at_.pipe);
  std::vector<execute::ProgramGraph> graphs;
  for (const policy::NamedPolicy& policy : policies) {
    names_.push_back(fmt::format("{}: {}", names_.size(), policy.name));
    graphs.push_back({names_.back(), graph.graph, policy.policy, graph.of_stage});
  }
  program_ = std::make_unique<execute::Program>(
      world_, std::move(graphs),
      execute::ProgramOptions{.policy_options = options,
                              .rewrites = chosen_rewrites(run_),
                              .grid = run_.config.grid,
                              .threads = static_cast<int>(run_.config.threads),
                              .gemm_tuning = execute::table_of(nullptr, bf16_unit_of(run_.config)),
                              .make_executor = executor_of(every_step_traced(run_.config)),
                              .watchdog_seconds = run_.config.watchdog});
  reset();
}

void PolicyBenchmark::reset() {
  begin_benchmark(program_->state(), run_.config, at_, shards_);
  step_ = 0;
  program_->state_to_device();
}

double PolicyBenchmark::run(std::size_t policy) {
  write_scalars(program_->state(), run_.config, step_);
  world_.barrier();
  program_->run(names_.at(policy), step_++);
  const plan::StepTrace& trace = last_trace(policy);
  // Ranks leave a barrier within microseconds of one another, so each counts from its own start.
  std::uint64_t slowest = 0;
  for (const std::uint64_t ns : world_.all_gather(static_cast<std::uint64_t>(trace.end - trace.begin))) {
    slowest = std::max(slowest, ns);
  }
  return static_cast<double>(slowest);
}

std::uint64_t PolicyBenchmark::fingerprint() const {
  program_->state_to_host();
  Fingerprint sum;
  for (const MutableParameterState& array : training_arrays(program_->state(), shards_, run_.config.dtype)) {
    const auto add = [&](const void* data, std::int64_t bytes) {
      sum.add_bytes(data, static_cast<std::size_t>(bytes));
    };
    add(array.data, kept_elements(array) * static_cast<std::int64_t>(size_of(array.dtype)));
    if (array.m != nullptr) add(array.m, updated_elements(array) * 4);
    if (array.v != nullptr) add(array.v, updated_elements(array) * 4);
    if (array.master != nullptr) add(array.master, updated_elements(array) * 4);
  }
  Fingerprint all;
  for (const std::uint64_t value : world_.all_gather(sum.value())) all.add(value);
  return all.value();
}

}  // namespace weft::train
