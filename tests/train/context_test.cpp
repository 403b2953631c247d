// Context by heads: ranks that share sequences train like one rank, attention keeps its bits, and each keeps its part
// of the activations.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/analysis.h"
#include "ops/attention.h"
#include "ops/communication.h"
#include "ops/layers.h"
#include "ops/lowering.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"
#include "train/generator.h"

namespace weft::train {
namespace {

constexpr testing::ModelSizes kContextSizes = {
    .layers = 2, .hidden = 96, .heads = 24, .kv_heads = 24, .ffn = 60, .vocab = 61, .context = 16};

// Alone, by two to four, with other ranks of z that read other sequences, with each other axis, and with stages.
const std::vector<graph::Grid>& grids_with_context() {
  static const std::vector<graph::Grid> all = {{.z = 2, .context = 2},
                                               {.z = 3, .context = 3},
                                               {.z = 4, .context = 4},
                                               {.z = 4, .context = 2},
                                               {.x = 2, .z = 2, .context = 2},
                                               {.y = 2, .z = 2, .context = 2},
                                               {.z = 2, .data = 2, .context = 2},
                                               {.x = 2, .y = 2, .z = 2, .context = 2},
                                               {.z = 2, .pipe = 2, .context = 2}};
  return all;
}

testing::GridRun context_run(const ops::ModelConfig& model, const graph::Grid& grid) {
  testing::GridRun run = testing::two_micro_batches(model, grid, 12, 4);
  if (grid.pipe > 1) {
    run.policy = "1f1b";
    run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, grid.pipe);
  }
  return run;
}

class ContextKinds : public ::testing::TestWithParam<testing::ModelKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, ContextKinds,
                         ::testing::Values(testing::ModelKind::gpt2, testing::ModelKind::llama,
                                           testing::ModelKind::mistral, testing::ModelKind::qwen3,
                                           testing::ModelKind::gemma3_text, testing::ModelKind::mixtral),
                         testing::kNameOfParam);

TEST_P(ContextKinds, TrainLikeOneRank) {
  ops::ModelConfig model = testing::tiny_model(GetParam(), kContextSizes);
  if (GetParam() == testing::ModelKind::mistral || GetParam() == testing::ModelKind::mixtral) model.kv_heads = 8;
  const testing::GridOutcome expected = testing::run_grid(context_run(model, {}));
  for (const graph::Grid& grid : grids_with_context()) {
    if (model.kv_heads == 8 && grid.context == 3) continue;
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = context_run(model, grid);
    run.step.recompute_blocks = grid.ranks() >= 4;
    run.step.reshard_after_forward = grid.context > 2;
    run.step.zero1 = grid.data > 1;
    testing::expect_like_one_rank(testing::run_grid(run), expected, static_cast<std::size_t>(model.query_cols()));
  }
}

// As near its own serial run as on any other axis: the exchanges send what is in bf16 anyway.
TEST(Context, Bf16IsNearItsOwnSerialRun) {
  for (const testing::ModelKind kind :
       {testing::ModelKind::gpt2, testing::ModelKind::mistral, testing::ModelKind::mixtral}) {
    ops::ModelConfig model = testing::tiny_model(kind, kContextSizes);
    if (kind != testing::ModelKind::gpt2) model.kv_heads = 8;
    const testing::GridOutcome expected = testing::run_in_bf16(testing::recording(context_run(model, {})));
    for (const graph::Grid& grid : {graph::Grid{.z = 2, .context = 2}, graph::Grid{.x = 2, .z = 4, .context = 4},
                                    graph::Grid{.z = 4, .pipe = 2, .context = 2}}) {
      SCOPED_TRACE(graph::to_string(grid));
      testing::expect_near_in_bf16(testing::run_in_bf16(testing::replaying(expected, context_run(model, grid))),
                                   expected);
    }
  }
}

TEST(Context, AdaptersTrainLikeOneRank) {
  ops::ModelConfig model = testing::of_family(ops::Family::llama, kContextSizes);
  model.lora = {.rank = 4, .on = ops::kLoraQkv | ops::kLoraOut};
  const testing::GridOutcome expected = testing::run_grid(context_run(model, {}));
  for (const graph::Grid& grid : grids_with_context()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::expect_like_one_rank(testing::run_grid(context_run(model, grid)), expected);
  }
}

TEST(Context, DocumentsTrainLikeOneRank) {
  const ops::ModelConfig model = testing::of_family(ops::Family::llama, kContextSizes);
  const auto on = [&](const graph::Grid& grid) {
    testing::GridRun run = context_run(model, grid);
    run.step.document_mask = true;
    return testing::run_grid(run);
  };
  const testing::GridOutcome expected = on({});
  for (const graph::Grid& grid : grids_with_context()) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::expect_like_one_rank(on(grid), expected);
  }
}

// Rows that y cuts begin within a sequence, or within a rank's part of one.
TEST(Context, SequenceParallelTrainsLikeOneRank) {
  const ops::ModelConfig model = testing::of_family(ops::Family::gpt2, kContextSizes);
  const testing::GridOutcome expected = testing::run_grid(context_run(model, {}));
  for (const graph::Grid& grid : {graph::Grid{.y = 2, .z = 2, .context = 2}, graph::Grid{.y = 4, .z = 3, .context = 3},
                                  graph::Grid{.x = 2, .y = 2, .z = 2, .context = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = context_run(model, grid);
    run.step.sequence_parallel = true;
    testing::expect_like_one_rank(testing::run_grid(run), expected);
    run.step.micro_batches = 8, run.step.micro_batch /= 4;
    testing::GridRun serial = context_run(model, {});
    serial.step.micro_batches = 8, serial.step.micro_batch /= 4;
    testing::expect_like_one_rank(testing::run_grid(run), testing::run_grid(serial));
  }
}

TEST(Context, PoliciesAndRewritesChangeNoBit) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    testing::GridRun run = context_run(testing::of_family(family, kContextSizes), {.y = 2, .z = 2, .context = 2});
    run.steps = 2;
    const testing::GridOutcome expected = testing::run_grid(run);
    testing::expect_equal_under_policies(run, expected);
    run.rewrites = "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag";
    testing::expect_equal(testing::run_grid(run), expected);
    run.rewrites = "";
    run.step.recompute_blocks = true;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// ---- generated text

// The logits of a prompt and of the tokens that follow it, with the largest one taken each time.
std::vector<float> logits_of_text(const ops::ModelConfig& model, const graph::Grid& grid) {
  constexpr std::int64_t kPrefill = 8;
  std::vector<float> found;
  const testing::RanksEnd end = testing::end_of_ranks(static_cast<int>(grid.ranks()), [&](comm::World& world) {
    const graph::Coordinates at = graph::coordinates_of(grid, world.rank());
    execute::Program program(world, generation_graphs(model, DType::f32, kPrefill, grid), {.grid = grid});
    std::vector<ops::ParameterSpec> specs = ops::model_parameters(model);
    for (ops::ParameterSpec& spec : specs) spec.std *= 20;  // so that the largest logit stands apart
    for (const ops::ParameterShard& shard : ops::shard_parameters(model, specs, grid, at)) {
      initialize_parameter(shard, 3, DType::f32, program.state().data(shard.spec->name), nullptr);
    }
    set_coordinates(program.state(), grid, at);
    Sampler sampler({.temperature = 0});
    Generator(program, model, kPrefill).generate(std::vector<std::int32_t>{5, 3, 8}, 9, sampler, [&](std::int32_t) {
      const auto logits = program.state().get<float>(ops::names::kLogits).first(static_cast<std::size_t>(model.vocab));
      if (world.rank() == grid.ranks() - 1) found.insert(found.end(), logits.begin(), logits.end());
      return true;
    });
  });
  EXPECT_EQ(end.code, 0) << end.errors;
  return found;
}

TEST(Context, TextIsThatOfOneRank) {
  for (const testing::ModelKind kind :
       {testing::ModelKind::gpt2, testing::ModelKind::mistral, testing::ModelKind::qwen3}) {
    ops::ModelConfig model = testing::tiny_model(kind, kContextSizes);
    if (kind == testing::ModelKind::mistral) model.kv_heads = 8;
    const std::vector<float> expected = logits_of_text(model, {});
    for (const graph::Grid& grid : {graph::Grid{.z = 2, .context = 2}, graph::Grid{.x = 2, .z = 4, .context = 4}}) {
      const std::vector<float> found = logits_of_text(model, grid);
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_LE(testing::relative_difference(found, expected), 1e-5) << to_string(kind) << graph::to_string(grid);
    }
  }
}

// ---- attention alone

constexpr std::int64_t kAttendedSequences = 3, kAttendedTokens = 12;

// Attention between state tensors, there and back. `qkv` is doubled first, because rotation changes it in place.
std::shared_ptr<const graph::Graph> graph_of_attention(const ops::ModelConfig& model, const graph::Grid& grid,
                                                       DType dtype) {
  ops::Lowering low(model, dtype, grid);
  const ops::LocalHeads local = ops::local_heads(model, grid);
  const std::int64_t rows = kAttendedSequences * kAttendedTokens, out_cols = local.heads * model.head_dim();
  const std::int64_t cols = out_cols + 2 * local.kv_heads * model.head_dim();
  const auto state = [&](const char* name, std::int64_t width) {
    return ops::Value{low.named(name, dtype, {rows, width}, graph::Role::scalar), rows, width};
  };
  const auto keep = [&](const char* name, graph::TensorId from, std::int64_t width) {
    low.emit(name, graph::Scale{rows * width, 1.0F},
             {{"x", low.read(from)}, {"out", low.write(state(name, width).tensor)}});
  };
  const auto layer = low.enter_layer(0);
  const ops::Value qkv = state("qkv", cols);
  const ops::Value out = ops::attention(low, {ops::scaled(low, qkv, 2.0F)}, {kAttendedSequences, kAttendedTokens}, 0);
  keep("out", out.tensor, out_cols);
  low.set_gradient(out, state("dout", out_cols).tensor);
  low.backward();
  keep("dqkv", low.gradient(qkv), cols);
  return std::move(low).finish();
}

// The columns of one rank's queries, keys or values in one head group, among those of all heads.
struct HeadColumns {
  std::int64_t kind, begin, count;  // kind: 0 for queries, 1 keys, 2 values, 3 results
};

float context_number(std::int64_t row, std::int64_t kind, std::int64_t col) {
  const std::uint64_t mixed =
      static_cast<std::uint64_t>((row * 4 + kind) * 1009 + col + 1) * 0x9E3779B97F4A7C15ULL >> 40;
  return static_cast<float>(mixed % 2001) / 1000.0F - 1.0F;
}

// Calls f(whole row, columns, element in the tensor) for each piece of a rank's tensor, which has a part for each group
// of heads, of some rows of all sequences.
template <class F>
void for_pieces_of(const ops::ModelConfig& model, std::int64_t parts, std::int64_t rank, bool results, const F& f) {
  const std::int64_t q = model.heads / parts * model.head_dim(), kv = model.kv_heads / parts * model.head_dim();
  const std::int64_t length = kAttendedTokens / parts;
  std::int64_t element = 0;
  for (std::int64_t group = 0; group < parts; ++group) {
    for (std::int64_t row = 0; row < kAttendedSequences * length; ++row) {
      const std::int64_t whole_row = row / length * kAttendedTokens + rank * length + row % length;
      const auto piece = [&](std::int64_t kind, std::int64_t cols) {
        f(whole_row, HeadColumns{kind, group * cols, cols}, element);
        element += cols;
      };
      piece(results ? 3 : 0, q);
      if (results) continue;
      piece(1, kv);
      piece(2, kv);
    }
  }
}

// Results and gradients of all ranks, by row and column: each [rows, q | k | v | out of all heads].
std::map<std::string, std::vector<float>> attend_on(const ops::ModelConfig& model, const graph::Grid& grid,
                                                    DType dtype) {
  const std::int64_t parts = grid.context, q = model.query_cols(), kv = model.key_cols();
  const std::array<std::int64_t, 4> begins = {0, q, q + kv, q + 2 * kv};
  const std::int64_t width = 2 * q + 2 * kv;
  std::map<std::string, std::vector<float>> all;
  for (const char* name : {"out", "dqkv"})
    all[name].resize(static_cast<std::size_t>(kAttendedSequences * kAttendedTokens * width));
  std::mutex mutex;
  const testing::RanksEnd end = testing::end_of_ranks(static_cast<int>(grid.ranks()), [&](comm::World& world) {
    execute::ProgramOptions options;
    options.policy = policy::make_policy("program");
    options.grid = grid;
    execute::Program program(world, {{"train", graph_of_attention(model, grid, dtype)}}, options);
    const execute::State& state = program.state();
    for (const char* name : {"qkv", "dout"}) {
      for_pieces_of(model, parts, world.rank(), name[0] == 'd',
                    [&](std::int64_t row, const HeadColumns& columns, std::int64_t element) {
                      for (std::int64_t i = 0; i < columns.count; ++i) {
                        const auto at = static_cast<std::size_t>(element + i);
                        const float number = context_number(row, columns.kind, columns.begin + i);
                        if (dtype == DType::f32) state.get<float>(name)[at] = number;
                        if (dtype == DType::bf16) state.get<bf16>(name)[at] = bf16(number);
                      }
                    });
    }
    program.run("train");
    const std::lock_guard lock(mutex);
    for (const char* name : {"out", "dqkv"}) {
      const std::vector<float> numbers = testing::values_of(state, name);
      for_pieces_of(model, parts, world.rank(), name[0] == 'o',
                    [&](std::int64_t row, const HeadColumns& columns, std::int64_t element) {
                      const std::int64_t to =
                          row * width + begins.at(static_cast<std::size_t>(columns.kind)) + columns.begin;
                      for (std::int64_t i = 0; i < columns.count; ++i)
                        all[name][static_cast<std::size_t>(to + i)] = numbers[static_cast<std::size_t>(element + i)];
                    });
    }
  });
  EXPECT_EQ(end.code, 0) << end.errors;
  return all;
}

TEST(Context, AttentionKeepsEachBit) {
  for (const testing::ModelKind kind :
       {testing::ModelKind::gpt2, testing::ModelKind::llama, testing::ModelKind::mistral}) {
    ops::ModelConfig model = testing::tiny_model(kind, kContextSizes);
    if (kind == testing::ModelKind::llama) model.kv_heads = 4;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto expected = attend_on(model, {}, dtype);
      for (const std::int64_t ranks : {2, 4}) {
        SCOPED_TRACE(ranks);
        const auto found = attend_on(model, {.z = ranks, .context = ranks}, dtype);
        EXPECT_EQ(found.at("out"), expected.at("out"));
        EXPECT_EQ(found.at("dqkv"), expected.at("dqkv"));
      }
    }
  }
}

// ---- bytes

// docs/context.md: a rank sends its rows of the heads that others attend with, and gets its rows of their results.
TEST(Context, SendsAsManyBytesAsTheFormulaSays) {
  ops::ModelConfig model = testing::of_family(ops::Family::llama, kContextSizes);
  model.kv_heads = 8;
  for (const graph::Grid& grid : grids_with_context()) {
    if (grid.context == 3 || grid.pipe > 1) continue;
    for (const bool recompute : {false, true}) {
      testing::GridRun run = context_run(model, grid);
      run.step.recompute_blocks = recompute;
      double found = 0;
      for (const ops::Communication& row : ops::communication_of(*ops::lower_train(model, run.step)))
        found += row.channel == graph::Channel::context ? row.bytes : 0;
      const std::int64_t rows = run.step.micro_batches * run.step.micro_batch * run.step.seq_len / grid.context;
      const std::int64_t elements = rows * 2 * (model.query_cols() + model.key_cols()) / (grid.x * grid.y);
      const std::int64_t sent = elements / grid.context * (grid.context - 1);
      EXPECT_EQ(found, static_cast<double>(sent * 4 * model.layers * (recompute ? 3 : 2))) << graph::to_string(grid);
    }
  }
}

// ---- memory

// What a plan keeps of a step whose activations outweigh all else. The exchanged rows of one layer lie beside the
// others while they are on their way.
TEST(Context, DividesActivations) {
  const auto scratch = [](std::int64_t context) {
    const ops::ModelConfig model = testing::of_family(
        ops::Family::llama,
        {.layers = 4, .hidden = 64, .heads = 8, .kv_heads = 8, .ffn = 128, .vocab = 64, .context = 16384});
    const graph::Grid grid{.z = context, .context = context};
    const auto graph = ops::lower_train(model, {.seq_len = 16384, .grid = grid, .pipeline = {}});
    return static_cast<double>(graph::liveness(*graph, graph::topological_order(*graph)).peak_bytes);
  };
  const double whole = scratch(1);
  for (const std::int64_t context : {2, 4}) {
    EXPECT_LE(scratch(context) / whole, 1 / static_cast<double>(context) + 0.05) << context;
  }
}

}  // namespace
}  // namespace weft::train
