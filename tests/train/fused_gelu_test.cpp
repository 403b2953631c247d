// GELU within the products: on the CPU the bits of the step that computes it by itself.
#include <gtest/gtest.h>

#include <string>

#include "runtime/execute/cpu/cpu_weight_layouts.h"
#include "tests/base/messages.h"
#include "tests/train/grid_run.h"
#include "train/config/config.h"
#include "train/step/planning.h"

namespace weft::train {
namespace {

// 64 rows a micro-batch, so that products are packed; widths that are no multiples of a vector.
testing::GridRun run_of(const graph::Grid& grid, DType dtype = DType::f32) {
  return {.model = testing::of_family(
              ops::Family::gpt2,
              {.layers = 2, .hidden = 24, .heads = 4, .kv_heads = 4, .ffn = 44, .vocab = 37, .context = 8}),
          .step = {.micro_batch = 8,
                   .seq_len = 8,
                   .micro_batches = 2,
                   .grid = grid,
                   .pipeline = {},
                   .dtype = dtype,
                   .clip = 0.5F},
          .steps = 4};
}

struct Epilogues {
  std::int64_t gelu = 0, gradient = 0;
  friend bool operator==(const Epilogues&, const Epilogues&) = default;
};

Epilogues epilogues(const testing::GridRun& run) {
  Epilogues count;
  const auto graph = plan::rewrite(ops::lower_train(run.model, run.step), plan::parse_rewrites(run.rewrites),
                                   &execute::cpu_weight_layouts());
  for (const graph::Task& task : graph->tasks()) {
    const auto* gemm = std::get_if<graph::Gemm>(&task.operation);
    if (gemm == nullptr) continue;
    count.gelu += gemm->epilogue == Epilogue::gelu;
    count.gradient += gemm->epilogue == Epilogue::gelu_gradient;
  }
  return count;
}

TEST(FusedTraining, ChangesNoBitOnAnyGridAndUnderAnyPolicy) {
  for (const graph::Grid& grid :
       {graph::Grid{1, 1, 1, 1}, graph::Grid{2, 1, 1, 1}, graph::Grid{1, 2, 1, 1}, graph::Grid{1, 1, 2, 2}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      testing::GridRun run = run_of(grid, dtype);
      SCOPED_TRACE(graph::to_string(grid) + " " + std::string(to_string(dtype)));
      const testing::GridOutcome expected = testing::run_grid(run);
      EXPECT_NE(expected.losses.front(), expected.losses.back());
      run.rewrites = "fuse-gelu";
      testing::expect_equal_under_policies(run, expected);
    }
  }
}

TEST(FusedTraining, TogetherWithOtherRewrites) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    testing::GridRun run = run_of(graph::Grid{1, 1, 2, 1}, dtype);
    const testing::GridOutcome expected = testing::run_grid(run);
    for (const char* rewrites : {"fuse-gelu;pack-weights", "fuse-gelu;recompute;pack-weights", "fuse-gelu;reshard",
                                 "recompute;fuse-gelu", "pack-weights;fuse-gelu"}) {
      SCOPED_TRACE(rewrites);
      run.rewrites = rewrites;
      EXPECT_GT(epilogues(run).gelu, 0);
      testing::expect_equal(testing::run_grid(run), expected);
    }
  }
}

TEST(FusedTraining, ALoweringThatRecomputesToo) {
  testing::GridRun run = run_of(graph::Grid{1, 1, 1, 1});
  run.step.recompute_blocks = true;
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "fuse-gelu";
  EXPECT_GT(epilogues(run).gradient, 0);
  testing::expect_equal(testing::run_grid(run), expected);
}

// Sums over x or y end with a collective, so a GELU after it stays a separate task.
TEST(FusedTraining, EachMlpHasOneOfEach) {
  const auto count = [](const graph::Grid& grid) {
    testing::GridRun run = run_of(grid);
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
  testing::GridRun llama = run_of(graph::Grid{1, 1, 1, 1});
  llama.model.family = ops::Family::llama;
  llama.rewrites = "fuse-gelu";
  EXPECT_EQ(epilogues(llama), Epilogues{});
}

// The plain graph and the fused graph have the same table of products.
TEST(FusedTraining, TunedProductsKeepTheirMethods) {
  testing::GridRun run = run_of(graph::Grid{1, 1, 1, 1});
  run.gemm_tuning = testing::sgemm_everywhere(run);
  const testing::GridOutcome expected = testing::run_grid(run);
  run.rewrites = "fuse-gelu";
  testing::expect_equal(testing::run_grid(run), expected);
}

std::string chosen_for_tiny(RunConfig config) {
  config.model_name = "tiny";
  return plan::to_string(chosen_rewrites(resolve(std::move(config), 0)));
}

TEST(FuseGeluKey, IsOffUntilItIsAskedFor) {
  RunConfig config;
  config.pack_weights = WeightPacking::off;
  EXPECT_EQ(chosen_for_tiny(config), "");
  set_key(config, "fuse-gelu", "on", "--fuse-gelu");
  EXPECT_EQ(chosen_for_tiny(config), "fuse-gelu");
  config.rewrites = plan::parse_rewrites("recompute=0");
  EXPECT_EQ(chosen_for_tiny(config), "fuse-gelu;recompute=0");
  config.rewrites = plan::parse_rewrites("recompute=0;fuse-gelu");
  EXPECT_EQ(chosen_for_tiny(config), "recompute=0;fuse-gelu");  // rewrites_of() puts it first
  set_key(config, "fuse-gelu", "off", "--fuse-gelu");
  config.rewrites = {};
  EXPECT_EQ(chosen_for_tiny(config), "");
  config.device = DeviceKind::cuda;
  config.fuse_gelu = true;
  EXPECT_EQ(chosen_for_tiny(config), "fuse-gelu");
}

TEST(FuseGeluKey, WrongValuesAreRefused) {
  RunConfig config;
  for (const char* value : {"yes", "auto", "o"}) {
    EXPECT_TRUE(refuses([&] { set_key(config, "fuse-gelu", value, "--fuse-gelu"); }, {"true, false, on or off"}))
        << value;
  }
}

}  // namespace
}  // namespace weft::train
