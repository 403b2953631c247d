// Steps of training on a grid of ranks as threads, from fixed tokens, with the whole results: losses, gradient norms
// and parameters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/lower.h"
#include "ops/pipeline_layout.h"
#include "ops/sharding.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/near_numbers.h"
#include "train/run/step_routing.h"
#include "train/step/training_state.h"

namespace weft::testing {

/// The result of a run on any grid: "<parameter>", "<parameter>.m" (rows × cols elements each).
struct GridOutcome {
  int exit_code = 0;
  std::string errors;
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<float>> arrays;
  std::vector<train::Choices> choices;  // of each step, of a run that records its routing
};

struct GridRun {
  ops::ModelConfig model;
  ops::StepConfig step;  // micro_batch and micro_batches are one rank's
  std::int64_t steps = 20;
  double lr = 1e-3;
  std::int64_t warmup = 10;
  std::string policy = "program";
  std::shared_ptr<const policy::Policy> own_policy = nullptr;  // in place of the named one
  std::string rewrites = {};                                   // as parse_rewrites() takes them
  int compute_streams = 1;
  std::int64_t memory_limit = 0;  // bytes of scratch that a plan may take; 0: no limit
  std::shared_ptr<const execute::GemmTuning> gemm_tuning = nullptr;
  std::uint64_t seed = 7;
  execute::MakeExecutor make_executor = nullptr;  // null: the CPU
  double watchdog_seconds = 0;                    // 0: no watchdog
  bool check_finite = false;                      // as execute::ProgramOptions has it
  std::vector<train::Choices> choices = {};       // that each step's tokens take; empty: those of their logits
  std::function<void(const comm::World&, std::int64_t step)> before_step = nullptr;
  std::function<void(const execute::State&)> change_weights = nullptr;  // of a rank, before the first step

  /// Sequences of a step, over all ranks.
  std::int64_t sequences() const { return step.grid.batch_ranks() * step.micro_batches * step.micro_batch; }
  /// Targets of a step that count, over all ranks.
  std::int64_t counted_targets() const {
    std::int64_t counted = 0;
    for (std::int64_t s = 0; s < sequences(); ++s) {
      for (std::int64_t t = 0; t < step.seq_len; ++t) counted += (s + t) % 7 != 3;
    }
    return counted;
  }
};

/// One step of a GPT-2 of one narrow block over four tokens: for tests that aren't about the numbers.
inline GridRun narrow_run(const graph::Grid& grid) {
  return {
      .model = of_family(ops::Family::gpt2,
                         {.layers = 1, .hidden = 8, .heads = 2, .kv_heads = 2, .ffn = 16, .vocab = 12, .context = 4}),
      .step = {.seq_len = 4, .grid = grid, .pipeline = {}},
      .steps = 1};
}

/// Two micro-batches of 24 sequences in all, with dropout and clipping.
inline GridRun two_micro_batches(const ops::ModelConfig& model, const graph::Grid& grid, std::int64_t seq_len,
                                 std::int64_t steps) {
  return {.model = model,
          .step = {.micro_batch = 24 / (2 * grid.batch_ranks()),
                   .seq_len = seq_len,
                   .micro_batches = 2,
                   .grid = grid,
                   .pipeline = {},
                   .dropout = 0.1F,
                   .clip = 0.5F},
          .steps = steps};
}

/// The same of a narrow model with experts.
inline GridRun run_of_experts(ModelKind kind, const graph::Grid& grid, std::int64_t steps) {
  const ModelSizes sizes{.layers = 2, .hidden = 48, .heads = 12, .kv_heads = 12, .ffn = 36, .vocab = 61, .context = 12};
  return two_micro_batches(tiny_model(kind, sizes), grid, 6, steps);
}

/// A model of eight narrow layers, and runs of it in pipeline stages.
inline ops::ModelConfig pipeline_model(ops::Family family) {
  return of_family(family,
                   {.layers = 8, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 28, .vocab = 29, .context = 8});
}

inline GridRun pipeline_run(ops::Family family, const graph::Grid& grid, const std::string& policy) {
  GridRun run{.model = pipeline_model(family),
              .step = {.seq_len = 4,
                       .micro_batches = std::max<std::int64_t>(4, 12 / grid.batch_ranks()),  // multiples of 2, 3 and 4
                       .grid = grid,
                       .pipeline = {},
                       .dropout = 0.1F,
                       .clip = 0.5F},
              .steps = 4,
              .warmup = 2,
              .policy = policy};
  if (grid.pipe > 1) {
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy(policy)->chunks());
  }
  return run;
}

/// A table that picks the library's fp32 product, whole, for every product of the run's plain step.
inline std::shared_ptr<const execute::GemmTuning> sgemm_everywhere(const GridRun& run) {
  const auto graph = ops::lower_train(run.model, run.step);
  std::vector<execute::GemmChoice> choices;
  for (const execute::GemmUse& use : execute::products_of(std::array{graph})) {
    choices.push_back({use.problem, cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, use.problem.m, use.problem.n}});
  }
  return std::make_shared<const execute::GemmTuning>(std::move(choices));
}

inline std::vector<float> values_of(const execute::State& state, const std::string& name) {
  std::vector<float> values;
  if (state.tensor(name).dtype == DType::bf16) {
    for (const bf16 value : state.get<bf16>(name)) values.push_back(static_cast<float>(value));
  } else {
    const auto span = state.get<float>(name);
    values.assign(span.begin(), span.end());
  }
  return values;
}

/// Token `t` of sequence `s` of step `k`: the same on any grid.
inline std::int32_t grid_token(const ops::ModelConfig& model, std::int64_t k, std::int64_t s, std::int64_t t) {
  const std::uint64_t mixed = static_cast<std::uint64_t>((k * 31 + s) * 101 + t) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::int32_t>((mixed >> 33) % static_cast<std::uint64_t>(model.vocab));
}

/// Adds a shard's part of its parameter to the whole.
inline void put_arrays(const execute::State& state, const ops::ParameterShard& shard, GridOutcome& outcome) {
  const ops::ParameterSpec& spec = *shard.spec;
  const auto put = [&](const std::string& name, std::int64_t begin, std::int64_t end) {
    std::vector<float>& whole = outcome.arrays[name];
    whole.resize(static_cast<std::size_t>(spec.rows * spec.cols), std::nanf(""));
    const std::vector<float> values = values_of(state, name);
    for (const ops::ElementRun& piece : shard.runs_within(begin, end)) {
      for (std::int64_t i = 0; i < piece.count && piece.global >= 0; ++i) {
        float& to = whole[static_cast<std::size_t>(piece.global + i)];
        const float from = values[static_cast<std::size_t>(piece.local + i)];
        if (!std::isnan(to) && to != from) ADD_FAILURE() << name << " differs between replicas";
        to = from;
      }
      for (std::int64_t i = 0; i < piece.count && piece.global < 0; ++i) {
        if (values[static_cast<std::size_t>(piece.local + i)] != 0) ADD_FAILURE() << name << " has padding";
      }
    }
  };
  put(spec.name, shard.begin, shard.end);
  if (!spec.frozen) put(spec.name + ".m", shard.update_begin, shard.update_end);
}

/// Writes this rank's inputs of step `k`: tokens, targets and what they depend on.
inline void write_inputs(const GridRun& run, const execute::State& state, std::int64_t rank, std::int64_t k) {
  const graph::Coordinates at = graph::coordinates_of(run.step.grid, rank);
  const std::int64_t seq = run.step.seq_len, own = run.step.micro_batches * run.step.micro_batch;
  const std::int64_t first = graph::batch_rank(run.step.grid, at) * own;
  const std::int64_t length = seq / run.step.grid.context, begin = ops::first_position(run.step, at);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(own * length)), targets(tokens.size());
  for (std::int64_t s = 0; s < own; ++s) {
    for (std::int64_t t = begin; t < begin + length; ++t) {
      const auto i = static_cast<std::size_t>(s * length + t - begin);
      tokens[i] = grid_token(run.model, k, first + s, t);
      targets[i] = (first + s + t) % 7 == 3 ? -1 : grid_token(run.model, k, first + s, t + 1);
    }
  }
  train::write_ids(state, ops::names::kTokens, tokens);
  train::write_ids(state, ops::names::kTargets, targets);
  if (run.step.document_mask) {
    const auto starts = state.get<std::int32_t>(ops::names::kDocumentStarts);
    for (std::int64_t s = 0; s < own; ++s) {
      const std::int64_t document = 2 + (first + s) % 3;
      for (std::int64_t t = 0; t < seq; ++t) {
        starts[static_cast<std::size_t>(s * seq + t)] = static_cast<std::int32_t>(t - t % document);
      }
    }
  }
  const auto scalars = state.get<float>(ops::names::kScalars);
  const auto step_number = static_cast<double>(k + 1);
  scalars[0] = static_cast<float>(run.lr * std::min(1.0, step_number / static_cast<double>(run.warmup)));
  scalars[1] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(run.step.beta1), step_number)));
  scalars[2] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(run.step.beta2), step_number)));
  scalars[3] = static_cast<float>(1.0 / static_cast<double>(run.counted_targets()));
  if (state.contains(ops::names::kRandom)) {
    const auto random = state.get<std::int64_t>(ops::names::kRandom);
    random[0] = 99, random[1] = k, random[2] = ops::first_row(run.step, at);
  }
}

/// A rank's program of the run's step.
inline execute::Program program_of(const GridRun& run, comm::World& world, execute::ProgramOptions options) {
  options.grid = run.step.grid;
  options.make_executor = run.make_executor;
  const auto lower = [&](std::int64_t pipe) { return ops::lower_train(run.model, run.step, pipe); };
  const std::int64_t pipe = graph::coordinates_of(run.step.grid, world.rank()).pipe;
  return {world, {{"train", lower(pipe), nullptr, lower}}, options};
}

/// Gives a rank's state its coordinates and initial weights; returns its shards of the parameters.
inline std::vector<ops::ParameterShard> begin_rank(const GridRun& run, const execute::State& state, std::int64_t rank,
                                                   const std::vector<ops::ParameterSpec>& specs) {
  const graph::Grid& grid = run.step.grid;
  const graph::Coordinates at = graph::coordinates_of(grid, rank);
  auto shards = ops::shards_of_stage(run.model, run.step.pipeline,
                                     ops::shard_parameters(run.model, specs, grid, at, run.step.zero1), at.pipe);
  train::initialize_parameters(train::training_arrays(state, shards, run.step.dtype), run.seed);
  train::set_coordinates(state, grid, at);
  train::set_first_position(state, run.step, at);
  return shards;
}

/// The run's part of one rank. Rank 0 has the losses and norms.
inline void run_grid_rank(const GridRun& run, comm::World& world, GridOutcome& outcome, std::mutex& mutex) {
  execute::ProgramOptions options;
  options.policy = run.own_policy != nullptr ? run.own_policy : policy::make_policy(run.policy);
  options.policy_options.compute_streams = run.compute_streams;
  options.policy_options.memory_limit = run.memory_limit;
  options.rewrites = plan::parse_rewrites(run.rewrites);
  options.gemm_tuning = run.gemm_tuning;
  options.watchdog_seconds = run.watchdog_seconds;
  options.check_finite = run.check_finite;
  execute::Program program = program_of(run, world, std::move(options));
  const execute::State& state = program.state();
  const std::vector<ops::ParameterSpec> specs = ops::model_parameters(run.model);
  const std::vector<ops::ParameterShard> shards = begin_rank(run, state, world.rank(), specs);
  if (run.change_weights) run.change_weights(state);
  program.state_to_device();
  const auto finish = [&] {
    program.finish();
    if (run.step.routing == ops::Routing::recorded) {
      train::Choices choices = train::choices_of_ranks(world, {run.model, run.step}, state);
      if (world.rank() == 0) outcome.choices.push_back(std::move(choices));
    }
    if (world.rank() != 0) return;
    const auto metrics = state.get<float>(ops::names::kMetrics);
    EXPECT_EQ(metrics[1], static_cast<float>(run.counted_targets()));
    outcome.losses.push_back(static_cast<double>(metrics[0]) / static_cast<double>(metrics[1]));
    outcome.norms.push_back(static_cast<double>(metrics[3]));
  };
  bool under_way = false;  // the step before
  for (std::int64_t k = 0; k < run.steps; ++k) {
    if (run.before_step) run.before_step(world, k);
    write_inputs(run, state, world.rank(), k);
    if (!run.choices.empty()) {
      train::give_choices(world, {run.model, run.step}, state, run.choices.at(static_cast<std::size_t>(k)));
    }
    const bool ahead = program.start("train", k) && k + 1 < run.steps;
    if (under_way) finish();
    if (!ahead) finish();
    under_way = ahead;
  }
  program.state_to_host();
  const std::lock_guard lock(mutex);
  for (const ops::ParameterShard& shard : shards) put_arrays(state, shard, outcome);
}

/// A run whose choices another one can follow; the same as any run where a model has no experts.
inline GridRun recording(GridRun run) {
  if (run.model.experts > 0) run.step.routing = ops::Routing::recorded;
  return run;
}

/// The run with the choices of the run that recorded them, so that another order of sums flips none.
inline GridRun replaying(const GridOutcome& recorded, GridRun run) {
  run.choices = recorded.choices;
  run.step.routing = run.choices.empty() ? ops::Routing::free : ops::Routing::replayed;
  return run;
}

inline GridOutcome run_grid(const GridRun& run) {
  GridOutcome outcome;
  std::mutex mutex;
  const RanksEnd end = end_of_ranks(static_cast<int>(run.step.grid.ranks()),
                                    [&](comm::World& world) { run_grid_rank(run, world, outcome, mutex); });
  outcome.exit_code = end.code;
  outcome.errors = end.errors;
  return outcome;
}

/// Every axis alone and together with others, with two and with three ranks.
inline const std::vector<graph::Grid>& thirteen_grids() {
  static const std::vector<graph::Grid> all = {
      graph::Grid{2, 1, 1, 1}, graph::Grid{1, 2, 1, 1}, graph::Grid{1, 1, 2, 1}, graph::Grid{1, 1, 1, 2},
      graph::Grid{2, 2, 1, 1}, graph::Grid{2, 1, 2, 1}, graph::Grid{1, 2, 2, 1}, graph::Grid{2, 2, 2, 1},
      graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 1, 2}, graph::Grid{3, 1, 1, 1}, graph::Grid{1, 3, 1, 1},
      graph::Grid{1, 1, 3, 1}};
  return all;
}

/// Both runs ended well, with the same bits.
inline void expect_equal(const GridOutcome& actual, const GridOutcome& expected) {
  ASSERT_EQ(actual.exit_code, 0) << actual.errors;
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.arrays, expected.arrays);
}

/// The run under five policies that differ much. One policy has two compute streams.
inline void expect_equal_under_policies(GridRun run, const GridOutcome& expected,
                                        std::initializer_list<const char*> policies = {"program", "serial", "axonn",
                                                                                       "fsdp", "lhs"}) {
  for (const char* policy : policies) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    run.compute_streams = run.policy == "lhs" ? 2 : 1;
    expect_equal(run_grid(run), expected);
  }
}

/// The last rank leaves before its first step: the others end with PeerLost, and its reason is reported.
inline void expect_a_lost_rank_ends(const GridRun& run) {
  const int ranks = static_cast<int>(run.step.grid.ranks());
  const auto body = [&](comm::World& world) {
    execute::Program program = program_of(run, world, {.policy = policy::make_policy(run.policy)});
    if (world.rank() == ranks - 1) throw std::runtime_error("gone");
    program.run("train");
    ADD_FAILURE() << "a step without the last rank";
  };
  const RanksEnd end = end_of_ranks(ranks, body);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.errors, "weft: error: rank " + std::to_string(ranks - 1) + ": gone\n");
}

/// ‖a − b‖ / ‖b‖, of the elements from `begin` on up to `end`.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b, std::size_t begin = 0,
                                  std::size_t end = SIZE_MAX) {
  double difference = 0, norm = 0;
  for (std::size_t i = begin; i < std::min(end, b.size()); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// The worst relative_difference() of all arrays with a name that ends with `suffix`. Left out: the K part of the QKV
/// bias, as its true gradient is zero, or small with rotary positions. `queries`: elements of its Q part; 0: a third.
inline std::pair<double, std::string> worst_difference(const GridOutcome& a, const GridOutcome& b,
                                                       const std::string& suffix, std::size_t queries = 0) {
  std::pair<double, std::string> worst{0, ""};
  for (const auto& [name, expected] : b.arrays) {
    if (suffix.empty() ? name.ends_with(".m") : !name.ends_with(suffix)) continue;
    const std::vector<float>& found = a.arrays.at(name);
    double difference = relative_difference(found, expected);
    if (name.find("attn.qkv.bias") != std::string::npos) {
      const std::size_t q = queries > 0 ? queries : expected.size() / 3, values = (expected.size() + q) / 2;
      difference = std::max(relative_difference(found, expected, 0, q), relative_difference(found, expected, values));
    }
    if (!(difference <= worst.first)) worst = {difference, name};
  }
  return worst;
}

/// The run trained like one rank: losses, gradient norms and arrays differ in rounding alone.
inline void expect_like_one_rank(const GridOutcome& found, const GridOutcome& expected, std::size_t queries = 0) {
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  expect_near(found.losses, expected.losses, 1e-6, "loss");
  expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
  const auto [difference, name] = worst_difference(found, expected, "", queries);
  EXPECT_LE(difference, 1e-5) << name;
}

/// A run of ten steps in bf16, which is near its own serial run.
inline GridOutcome run_in_bf16(GridRun run) {
  run.step.dtype = DType::bf16;
  run.steps = 10;
  return run_grid(run);
}

/// Both runs trained in bf16, and differ in its rounding alone.
inline void expect_near_in_bf16(const GridOutcome& found, const GridOutcome& expected) {
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  expect_near(found.losses, expected.losses, 2e-2, "loss");
  expect_near(found.norms, expected.norms, 2e-2, "gradient norm");
  for (const auto& [name, values] : expected.arrays) {
    if (name.ends_with(".m") || name.find("bias") != std::string::npos) continue;
    EXPECT_LE(relative_difference(found.arrays.at(name), values), 2e-2) << name;
  }
}

}  // namespace weft::testing
