#include "train/measure/policy_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "base/hash.h"
#include "ops/lower.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/cpu/shared_cores.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "train/measure/bf16_products.h"
#include "train/measure/rank_clock.h"
#include "train/step/device_choice.h"
#include "train/step/planning.h"
#include "train/step/run_graphs.h"
#include "train/step/step_config.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

class SilentCommunicator final : public comm::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void start(const comm::CollectiveCall&) override {}
  bool progress() override { return true; }
};

/// A world without communication: collectives and messages end at once and move nothing. It has one rank, which is in
/// every group. Results of steps that communicate mean nothing, their computations take their usual time.
class SilentWorld final : public comm::World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "silent"; }
  int ranks_on_node() const override { return 1; }
  int rank_on_node() const override { return 0; }
  std::unique_ptr<comm::Communicator> split(int) override { return std::make_unique<SilentCommunicator>(); }
  void barrier() override {}
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return {{bytes.begin(), bytes.end()}};
  }
  void expect_peers() override {}
  void abort(const std::string&, int) override {}
};

}  // namespace

BenchmarkRank::BenchmarkRank(comm::World& world, const ResolvedRun& run)
    : world_(world),
      run_(with_bf16(run, bf16_of_run(world, run.config))),
      at_(graph::coordinates_of(run_.config.grid, world.rank())),
      specs_(ops::model_parameters(run_.config.model)),
      shards_(shards_of(run_.config, specs_, at_)) {}

void BenchmarkRank::begin(const execute::State& state) {
  const RunConfig& config = run_.config;
  step_ = 0;
  const auto arrays = training_arrays(state, shards_, config.dtype);
  initialize_parameters(arrays, config.seed);
  for (const ParameterState& array : arrays) {
    std::fill_n(array.m, array.updated().size(), 0.0F);
    std::fill_n(array.v, array.updated().size(), 0.0F);
  }
  write_constants(state, config, at_);
  // Ranks that differ only in x and y read the same tokens.
  std::mt19937_64 draw(config.seed + static_cast<std::uint64_t>(graph::batch_rank(config.grid, at_)));
  const auto token = [&] { return static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(config.model.vocab)); };
  // Of a step that replays its choices of experts: about as many tokens for each of them.
  const std::int64_t choices = config.model.experts_per_token, others = config.model.experts - choices + 1;
  for (const std::int64_t layer : config.model.expert_layers()) {
    const std::string name = ops::names::of_router(layer, ops::names::kChosen);
    if (config.replay_routing.empty() || !state.contains(name)) continue;
    std::int64_t number = 0;
    for (std::int32_t& expert : state.get<std::int32_t>(name)) {
      expert = static_cast<std::int32_t>(number / choices % others + number % choices);
      ++number;
    }
  }
  const auto draw_ids = [&](const char* name) {
    const std::int64_t count = accumulation(config) * config.micro_batch * config.seq_len / config.grid.context;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::ranges::generate(ids, token);
    write_ids(state, name, ids);
  };
  draw_ids(ops::names::kTokens);
  draw_ids(ops::names::kTargets);
}

PolicyBenchmark::PolicyBenchmark(comm::World& world, const ResolvedRun& run,
                                 const std::vector<policy::NamedPolicy>& policies, const policy::PolicyOptions& options)
    : BenchmarkRank(world, run) {
  RunConfig traced = run_.config;
  traced.trace_every = 1;
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
                              .make_executor = executor_of(traced),
                              .bind_cores = binding_of(traced),
                              .watchdog_seconds = run_.config.watchdog});
  reset();
}

void PolicyBenchmark::reset() {
  begin(program_->state());
  program_->state_to_device();
}

double PolicyBenchmark::run(std::size_t policy) {
  write_scalars(program_->state(), run_.config, step_);
  world_.barrier();
  program_->run(names_.at(policy), step_++);
  const plan::StepTrace& trace = last_trace(policy);
  // Ranks leave a barrier within microseconds of one another, so each counts from its own start.
  return over_ranks(world_, static_cast<double>(trace.end - trace.begin)).greatest;
}

std::uint64_t PolicyBenchmark::fingerprint() const {
  program_->state_to_host();
  Fingerprint sum;
  for (const ParameterState& array : training_arrays(program_->state(), shards_, run_.config.dtype)) {
    const auto add = [&](const void* data, std::int64_t bytes) {
      sum.add_bytes(data, static_cast<std::size_t>(bytes));
    };
    add(array.data, array.kept().size() * static_cast<std::int64_t>(size_of(array.dtype)));
    if (array.m != nullptr) add(array.m, array.updated().size() * 4);
    if (array.v != nullptr) add(array.v, array.updated().size() * 4);
    if (array.master != nullptr) add(array.master, array.updated().size() * 4);
  }
  Fingerprint all;
  for (const std::uint64_t value : world_.all_gather(sum.value())) all.add(value);
  return all.value();
}

StageComputations::StageComputations(comm::World& world, const ResolvedRun& run)
    : BenchmarkRank(world, run), pools_(execute::shared_cores(world, run_.config.threads)) {
  policy::PolicyOptions options;
  options.weight_layouts = &execute::cpu_weight_layouts();
  plan_ = std::make_shared<const plan::Plan>(policy::compile_plan(train_graph(run_.config, at_.pipe).graph,
                                                                  *policy::named_policy("serial").policy, options,
                                                                  chosen_rewrites(run_)));
  std::vector<graph::Channel> channels;
  for (const plan::StreamPlan& stream : plan_->streams) {
    if (!stream.stream.compute) channels.push_back(stream.stream.channel);
  }
  state_ = std::make_unique<execute::State>(std::array{plan_->graph});
  SilentWorld silent;
  executor_ = execute::make_cpu_executor(
      *state_, execute::CommunicatorSet(silent, channels, run_.config.grid),
      execute::CpuExecutorOptions{.rank = world.rank(),
                                  .threads = static_cast<int>(run_.config.threads),
                                  .gemm_tuning = execute::table_of(nullptr, bf16_unit_of(run_.config))});
  loaded_ = executor_->load(plan_);
  begin(*state_);
}

double StageComputations::run() {
  write_scalars(*state_, run_.config, step_);
  const execute::Turns turns = execute::turns_of(pools_, world_.rank(), run_.config.threads);
  for (std::int64_t turn = 0; turn < turns.count; ++turn) {
    world_.barrier();
    if (turn == turns.own) executor_->run(loaded_, step_);
  }
  world_.barrier();  // waits without taking the cores of a rank that still computes, unlike other collectives
  ++step_;
  return static_cast<double>(last_trace().end - last_trace().begin);
}

}  // namespace weft::train
