// Rewrites of whole training steps, above all of the CPU's products, weights packed once a step and GELU within them:
// the bits of the step without them, where a run does so, and the graphs of the lowering's own flags.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/gemm/gemm_method.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/base/temporary_folder.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"
#include "train/config/config.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

constexpr std::int64_t kRows = 64;  // of a micro-batch

// Of a weight: for the forward pass, which reads it transposed, and for the input's gradient.
std::int64_t packings_of_a_weight(DType dtype = DType::f32) {
  std::int64_t ways = 0;
  for (const bool trans_b : {false, true}) {
    const cpu::GemmMethod method = cpu::default_gemm_method({kRows, 32, 32, false, trans_b}, dtype, dtype);
    if (method.engine == cpu::GemmMethod::Engine::packed) ++ways;
  }
  return ways;
}

bool packs_by_default(DType dtype = DType::f32) {
  return packings_of_a_weight(dtype) > 0;
}

// Widths that are no multiples of a vector or a tile, blocks that every axis divides.
testing::GridRun run_of(ops::Family family, const graph::Grid& grid, DType dtype = DType::f32) {
  return {.model = testing::of_family(
              family, {.layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .ffn = 44, .vocab = 37, .context = 8}),
          .step = {.micro_batch = kRows / 8,
                   .seq_len = 8,
                   .micro_batches = 2,
                   .grid = grid,
                   .pipeline = {},
                   .dtype = dtype,
                   .dropout = 0.2F,
                   .clip = 0.5F},
          .steps = 4};
}

std::int64_t packings(const graph::Graph& graph) {
  return std::ranges::count_if(
      graph.tasks(), [](const graph::Task& task) { return std::holds_alternative<graph::PackWeight>(task.operation); });
}

std::shared_ptr<const graph::Graph> rewritten(const testing::GridRun& run) {
  return plan::rewrite(ops::lower_train(run.model, run.step), plan::parse_rewrites(run.rewrites),
                       &execute::cpu_weight_layouts());
}

std::int64_t packings(const testing::GridRun& run) {
  return packings(*rewritten(run));
}

struct Epilogues {
  std::int64_t gelu = 0, gradient = 0, sums = 0, biases = 0;
  friend bool operator==(const Epilogues&, const Epilogues&) = default;
};

Epilogues epilogues(const testing::GridRun& run) {
  Epilogues count;
  for (const auto graph = rewritten(run); const graph::Task& task : graph->tasks()) {
    const auto* gemm = std::get_if<graph::Gemm>(&task.operation);
    if (gemm == nullptr) continue;
    count.gelu += gemm->epilogue == Epilogue::gelu;
    count.gradient += gemm->epilogue == Epilogue::gelu_gradient;
    count.sums += gemm->epilogue == Epilogue::add;
    count.biases += gemm->epilogue == Epilogue::bias_gradient;
  }
  return count;
}

class RewrittenTraining : public ::testing::TestWithParam<ops::Family> {};

INSTANTIATE_TEST_SUITE_P(Families, RewrittenTraining, testing::kFamilies, testing::kNameOfParam);

TEST_P(RewrittenTraining, ChangeNoBitOnAnyGridAndUnderAnyPolicy) {
  for (const graph::Grid& grid :
       {graph::Grid{1, 1, 1, 1}, graph::Grid{2, 1, 1, 1}, graph::Grid{1, 2, 1, 2}, graph::Grid{1, 1, 2, 2}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      testing::GridRun run = run_of(GetParam(), grid, dtype);
      SCOPED_TRACE(graph::to_string(grid) + " " + std::string(to_string(dtype)));
      const testing::GridOutcome expected = testing::run_grid(run);
      EXPECT_NE(expected.losses.front(), expected.losses.back());
      run.rewrites = "pack-weights";
      EXPECT_EQ(packings(run) > 0, packs_by_default(dtype));
      testing::expect_equal_under_policies(run, expected);
      if (GetParam() == ops::Family::llama) continue;
      run.rewrites = "fuse-gelu";
      testing::expect_equal_under_policies(run, expected);
    }
  }
}

TEST_P(RewrittenTraining, TogetherWithOtherRewrites) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    testing::GridRun run = run_of(GetParam(), graph::Grid{1, 2, 2, 1}, dtype);
    const testing::GridOutcome expected = testing::run_grid(run);
    for (const char* rewrites :
         {"recompute;pack-weights", "reshard;pack-weights", "recompute=1;reshard=0;bucket=2KB;pack-weights",
          "fuse-gelu;pack-weights", "fuse-gelu;recompute;pack-weights", "fuse-gelu;reshard", "recompute;fuse-gelu",
          "pack-weights;fuse-gelu"}) {
      SCOPED_TRACE(rewrites);
      run.rewrites = rewrites;
      const bool fuses = run.rewrites.find("fuse-gelu") != std::string::npos && GetParam() == ops::Family::gpt2;
      EXPECT_EQ(epilogues(run).gelu > 0, fuses);
      testing::expect_equal(testing::run_grid(run), expected);
    }
  }
}

// The step has a table that picks an engine which reads the unpacked weight, as CpuKernels.ProductsOfPackedWeights
// checks.
TEST_P(RewrittenTraining, KeepTheMethodsOfATable) {
  testing::GridRun run = run_of(GetParam(), graph::Grid{1, 1, 1, 1});
  run.gemm_tuning = testing::sgemm_everywhere(run);
  const testing::GridOutcome expected = testing::run_grid(run);
  for (const char* rewrites : {"pack-weights", "fuse-gelu"}) {
    run.rewrites = rewrites;
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

// As floats where bf16 is converted.
TEST_P(RewrittenTraining, FollowsWhatMultipliesBf16) {
  testing::GridRun run = run_of(GetParam(), graph::Grid{1, 1, 1, 1}, DType::bf16);
  run.gemm_tuning = std::make_shared<const execute::GemmTuning>(std::vector<execute::GemmChoice>{}, PackedUnit::f32);
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "pack-weights=2,fp32";
  testing::expect_equal(testing::run_grid(run), expected);
  const auto graph = rewritten(run);
  EXPECT_GT(packings(*graph), 0);
  for (const graph::Task& task : graph->tasks()) {
    if (!std::holds_alternative<graph::PackWeight>(task.operation)) continue;
    EXPECT_EQ(graph->tensor(task.accesses.back().view.tensor).dtype, DType::f32) << task.name;
  }
}

// QKV, attention's output, up (with gate) and down of each layer, and the head: forward and for the input's gradient.
TEST_P(RewrittenTraining, EveryWeightIsPackedBothWays) {
  testing::GridRun run = run_of(GetParam(), graph::Grid{1, 1, 1, 1});
  const std::int64_t all = packings_of_a_weight() * (4 * run.model.layers + 1);
  run.rewrites = "pack-weights";
  EXPECT_EQ(packings(run), all);
  run.step.micro_batches = 5;
  EXPECT_EQ(packings(run), all);
  run.rewrites = "pack-weights=6";
  EXPECT_EQ(packings(run), 0);
}

TEST_P(RewrittenTraining, OneMicroBatchReadsAWeightTwiceWhereItIsRecomputed) {
  testing::GridRun run = run_of(GetParam(), graph::Grid{1, 1, 1, 1});
  run.step.micro_batches = 1;
  run.rewrites = "pack-weights";
  EXPECT_EQ(packings(run), 0);
  run.rewrites = "recompute;pack-weights";
  const std::int64_t recomputed = packings(run);
  EXPECT_EQ(recomputed > 0, packs_by_default());
  EXPECT_LE(recomputed, 4 * run.model.layers);  // forward only
  // Few rows: packing costs more than the product.
  run.step.micro_batch = 1;
  run.step.micro_batches = 4;
  run.rewrites = "pack-weights";
  EXPECT_EQ(packings(run), 0);
}

TEST_P(RewrittenTraining, WeightsGatheredByEachPassAreLeftAlone) {
  testing::GridRun run = run_of(GetParam(), graph::Grid{1, 1, 2, 1});
  run.rewrites = "pack-weights";
  const std::int64_t kept = packings(run);
  EXPECT_EQ(kept > 0, packs_by_default());
  run.rewrites = "reshard;pack-weights";
  EXPECT_LT(packings(run), kept + (packs_by_default() ? 0 : 1));
}

TEST_P(RewrittenTraining, OfBf16OverNarrowMessages) {
  testing::GridRun run = run_of(GetParam(), {1, 1, 2, 2}, DType::bf16);
  run.model.hidden = 32, run.model.ffn = 48;  // vectors of 64 bytes and more, so that some join a bucket
  run.step.reduce_dtype = DType::bf16;
  run.step.zero1 = true;
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "recompute=1;reshard=0;bucket;split-collective=128;ar-to-rs-ag";
  testing::expect_equal(testing::run_grid(run), expected);
}

// The number of tasks of each operation, layer, micro-batch and phase in the layers of a graph. (Embeddings that only
// the forward pass reads stay gathered under the rewrite.)
std::map<std::string, int> census(const graph::Graph& graph) {
  std::map<std::string, int> counts;
  for (const graph::Task& task : graph.tasks()) {
    if (task.layer < 0) continue;
    ++counts[std::string(graph::kind_name(task.operation)) + " L" + std::to_string(task.layer) + " mb" +
             std::to_string(task.micro_batch) + " " + std::string(graph::to_string(task.phase))];
  }
  return counts;
}

TEST_P(RewrittenTraining, TheLoweringsFlagsAreTheSameRewrites) {
  for (const graph::Grid& grid : {graph::Grid{2, 1, 1, 1}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 1, 1}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = run_of(GetParam(), grid);
    const auto plain = ops::lower_train(run.model, run.step);
    run.step.recompute_blocks = true;
    const auto recomputed = ops::lower_train(run.model, run.step);
    EXPECT_EQ(census(*plan::rewrite(plain, plan::parse_rewrites("recompute"))), census(*recomputed));
    EXPECT_EQ(plan::rewrite(recomputed, plan::parse_rewrites("recompute"))->fingerprint(), recomputed->fingerprint());
    run.step.recompute_blocks = false;
    run.step.reshard_after_forward = true;
    const auto resharded = ops::lower_train(run.model, run.step);
    EXPECT_EQ(census(*plan::rewrite(plain, plan::parse_rewrites("reshard"))), census(*resharded));
    EXPECT_EQ(plan::rewrite(resharded, plan::parse_rewrites("reshard"))->fingerprint(), resharded->fingerprint());
  }
}

TEST(FusedTraining, ALoweringThatRecomputesToo) {
  testing::GridRun run = run_of(ops::Family::gpt2, graph::Grid{1, 1, 1, 1});
  run.step.recompute_blocks = true;
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "fuse-gelu";
  EXPECT_GT(epilogues(run).gradient, 0);
  testing::expect_equal(testing::run_grid(run), expected);
}

// Each branch's last product has its residual where no collective and no dropout stands between them.
TEST(FusedTraining, ResidualsKeepEveryBit) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const graph::Grid& grid : {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 1, 1}}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(graph::to_string(grid) + " " + std::string(to_string(dtype)));
        testing::GridRun run = run_of(family, grid, dtype);
        run.rewrites = "fuse-residual";
        run.step.dropout = 0.1F;
        EXPECT_EQ(epilogues(run), Epilogues{});
        run.step.dropout = 0;
        const std::int64_t all = 2 * 2 * 2;  // branches, layers, micro-batches
        EXPECT_EQ(epilogues(run), (Epilogues{0, 0, grid.x * grid.y == 1 ? all : 0}));
        const testing::GridOutcome fused = testing::run_grid(run);
        for (const char* others : {"", "fuse-gelu;fuse-residual;recompute=0;pack-weights"}) {
          run.rewrites = others;
          testing::expect_equal(testing::run_grid(run), fused);
        }
      }
    }
  }
}

// Every bias of a layer, whatever is cut: its gradient is summed from what the weight's is made of.
TEST(FusedTraining, BiasGradientsKeepEveryBit) {
  for (const graph::Grid& grid : {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 1, 2, 2}, graph::Grid{2, 2, 1, 1}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(graph::to_string(grid) + " " + std::string(to_string(dtype)));
      testing::GridRun run = run_of(ops::Family::gpt2, grid, dtype);
      const testing::GridOutcome expected = testing::run_grid(run);
      for (const char* rewrites : {"fuse-bias-gradient", "fuse-gelu;fuse-bias-gradient;recompute=0;pack-weights"}) {
        run.rewrites = rewrites;
        const auto graph = rewritten(run);
        EXPECT_GE(epilogues(run).biases, 4 * 2 * 2);  // products, layers, micro-batches
        EXPECT_TRUE(std::ranges::none_of(graph->tasks(), [](const graph::Task& task) {
          return std::holds_alternative<graph::BiasGradient>(task.operation);
        }));
        testing::expect_equal(testing::run_grid(run), expected);
      }
    }
  }
}

// Sums over x or y end with a collective, so a GELU after it stays a separate task.
TEST(FusedTraining, EachMlpHasOneOfEach) {
  const auto count = [](const graph::Grid& grid, ops::Family family = ops::Family::gpt2) {
    testing::GridRun run = run_of(family, grid);
    run.rewrites = "fuse-gelu";
    return epilogues(run);
  };
  const std::int64_t all = 2 * 2;  // layers, micro-batches
  EXPECT_EQ(count(graph::Grid{1, 1, 1, 1}), (Epilogues{all, all}));
  EXPECT_EQ(count(graph::Grid{1, 1, 2, 2}), (Epilogues{all, all}));
  const Epilogues x = count(graph::Grid{2, 1, 1, 1}), y = count(graph::Grid{1, 2, 1, 1}),
                  both = count(graph::Grid{2, 2, 1, 1});
  EXPECT_EQ(both, Epilogues{});
  EXPECT_EQ(x.gelu + y.gelu, all);
  EXPECT_EQ(x.gradient + y.gradient, all);
  EXPECT_EQ(count(graph::Grid{1, 1, 1, 1}, ops::Family::llama), Epilogues{});
}

RunConfig config_of(std::int64_t micro_batches) {
  RunConfig config;
  config.model_name = "tiny";
  config.seq_len = 64;
  config.micro_batch = 1;
  config.global_batch = micro_batches;
  return config;
}

std::string chosen(RunConfig config) {
  return plan::to_string(chosen_rewrites(resolve(std::move(config), 0)));
}

std::int64_t planned_packings(RunConfig config) {
  const ResolvedRun run = resolve(std::move(config), 0);
  const auto graph = ops::lower_train(run.config.model, step_config(run.config));
  return packings(*policy::compile_plan(graph, *run.policy, policy_options(run), chosen_rewrites(run)).graph);
}

TEST(PackWeightsKey, AutoPacksWhereManyProductsReadAWeight) {
  RunConfig config = config_of(8);
  EXPECT_EQ(planned_packings(config) > 0, packs_by_default());
  EXPECT_EQ(planned_packings(config_of(1)), 0);
  EXPECT_EQ(planned_packings(config_of(2)), 0);  // on: below
  config.rewrites = plan::parse_rewrites("bucket=64");
  EXPECT_TRUE(chosen(config).starts_with("bucket=64;pack-weights="));
  config.rewrites = plan::parse_rewrites("pack-weights=3");
  EXPECT_EQ(chosen(config), "pack-weights=3");
}

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string chosen_with(const Settings& settings) {
  RunConfig config = config_of(8);
  for (const auto& [key, value] : settings) set_key(config, key, value, "test");
  return chosen(config);
}

TEST(PackWeightsKey, AutoLeavesOthersWhatIsTheirs) {
  EXPECT_EQ(chosen_with({{"machine", "laptop"}}), "");
  EXPECT_EQ(chosen_with({{"machine", "laptop"}, {"pack-weights", "on"}}), "pack-weights=2");
  EXPECT_EQ(chosen_with({{"model", "gpt2-124m"}}), "pack-weights=4");
  EXPECT_EQ(chosen_with({{"model", "gpt2-350m"}}), "");  // 2.6 GiB
  EXPECT_EQ(chosen_with({{"memory", "1GiB"}}), "");
  EXPECT_EQ(chosen_with({{"device", "cuda"}}), "");
  EXPECT_EQ(chosen_with({{"pack-weights", "off"}}), "");
  RunConfig config = config_of(8);
  const testing::TemporaryFolder folder;
  fill_in(config, 0);
  const auto graph = ops::lower_train(config.model, step_config(config));
  config.policy =
      "file:" + folder.write("plan.json",
                             plan::to_json({plan::filed(policy::compile_plan(graph, *policy::default_policy()), {})}));
  EXPECT_EQ(chosen(config), "");
}

TEST(PackWeightsKey, OnPacksWhatTwoProductsRead) {
  RunConfig config = config_of(2);
  config.pack_weights = WeightPacking::on;
  EXPECT_EQ(planned_packings(config) > 0, packs_by_default());
  EXPECT_EQ(planned_packings(config_of(1)), 0);
}

TEST(FuseGeluKey, IsOffUntilItIsAskedFor) {
  const auto chosen_by = [](Settings settings) {
    settings.emplace_back("pack-weights", "off");
    return chosen_with(settings);
  };
  EXPECT_EQ(chosen_by({}), "");
  EXPECT_EQ(chosen_by({{"fuse-gelu", "on"}}), "fuse-gelu");
  EXPECT_EQ(chosen_by({{"fuse-gelu", "on"}, {"rewrites", "recompute=0"}}), "fuse-gelu;recompute=0");
  EXPECT_EQ(chosen_by({{"fuse-gelu", "on"}, {"rewrites", "recompute=0;fuse-gelu"}}), "recompute=0;fuse-gelu");
  EXPECT_EQ(chosen_by({{"fuse-gelu", "off"}}), "");
  EXPECT_EQ(chosen_by({{"fuse-gelu", "on"}, {"device", "cuda"}}), "fuse-gelu");
}

}  // namespace
}  // namespace weft::train
