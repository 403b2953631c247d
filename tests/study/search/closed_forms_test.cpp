// AxoNN's model against values worked out from its paper's formula and the bandwidths of its script; published idle
// times of pipelines.
#include "study/search/closed_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"

namespace weft::study {
namespace {

constexpr double kGiB = 1 << 30;

ops::ModelConfig gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ops::ModelConfig model;
  model.family = ops::Family::gpt2;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.ffn = 4 * hidden;
  return model;
}

/// The table of the script for a cluster with nodes of four A100: bandwidth by size of a group and product of the inner
/// axes' sizes.
double on_perlmutter(std::int64_t inner, std::int64_t size) {
  if (inner == 1) return kGiB * (size == 2 ? 76 : size == 4 ? 225 : 80);
  if (inner == 2) return kGiB * (size == 2 ? 76 : 40);
  return 20 * kGiB;
}

/// Of a cluster with nodes of eight GCDs.
double on_frontier(std::int64_t inner, std::int64_t size) {
  if (inner == 1) return kGiB * (size == 2 ? 129 : size == 4 ? 52 : size == 8 ? 135 : 40);
  if (inner == 2) return kGiB * (size == 2 ? 50 : size == 4 ? 72 : 20);
  if (inner == 4) return kGiB * (size == 2 ? 36 : 10);
  return 5 * kGiB;
}

double seconds(const ops::ModelConfig& model, const graph::Grid& grid, std::int64_t sequences,
               double (*table)(std::int64_t inner, std::int64_t size)) {
  const AxonnStep step{model, grid, sequences, 2048, 1, true};
  return axonn_seconds(step, [&](graph::Axis axis) {
    std::int64_t inner = 1;
    for (const graph::Axis each : grid.order) {
      if (each == axis) break;
      inner *= grid.on(each);
    }
    return table(inner, grid.on(axis));
  });
}

TEST(AxonnModel, GivesTheSecondsOfItsFormula) {
  const ops::ModelConfig of_80b = gpt(42, 12288, 96);
  EXPECT_NEAR(seconds(of_80b, {.z = 1024}, 1024, on_perlmutter), 5.31, 0.005);
  EXPECT_NEAR(seconds(of_80b, {.y = 8, .z = 128}, 1024, on_perlmutter), 4.70, 0.005);
  EXPECT_NEAR(seconds(gpt(32, 7168, 56), {.z = 256}, 1024, on_perlmutter), 1.37, 0.005);
  EXPECT_NEAR(seconds(gpt(38, 9216, 72), {.z = 4096}, 8192, on_perlmutter), 2.70, 0.005);
  EXPECT_NEAR(seconds(of_80b, {.z = 8192}, 8192, on_frontier), 10.63, 0.005);
}

TEST(AxonnModel, RanksGridsOfPowersOfTwoAsItsFormulaDoes) {
  const ops::ModelConfig of_80b = gpt(42, 12288, 96);
  graph::Grid best;
  double least = 1e9;
  for (std::int64_t x = 1; x <= 1024; x *= 2) {
    for (std::int64_t y = 1; x * y <= 1024; y *= 2) {
      for (std::int64_t z = 1; x * y * z <= 1024; z *= 2) {
        if (x * y * z < 64) continue;  // too little memory
        const graph::Grid grid{.x = x, .y = y, .z = z, .data = 1024 / (x * y * z)};
        if (const double time = seconds(of_80b, grid, 1024, on_perlmutter); time < least) {
          least = time;
          best = grid;
        }
      }
    }
  }
  EXPECT_EQ(best, (graph::Grid{.y = 8, .z = 128}));
}

/// Sixteen layers, so large that a head of few tokens counts for nothing.
train::RunConfig identical_layers(std::int64_t batch) {
  train::RunConfig config;
  config.model.layers = 16;
  config.model.hidden = 4096;
  config.model.heads = config.model.kv_heads = 32;
  config.model.ffn = 16384;
  config.model.vocab = 1;
  config.seq_len = config.model.context = 128;
  config.global_batch = batch;
  return config;
}

double share(std::int64_t pipe, std::int64_t batch, const std::vector<std::string>& schedules) {
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : schedules) policies.push_back(policy::named_policy(name));
  return share_of_stages(identical_layers(batch), {.grid = {.pipe = pipe}}, policies);
}

// The published idle times, for weights that take a third of the work.
TEST(ShareOfStages, HasThePublishedIdleTimes) {
  EXPECT_EQ(share(1, 8, {"1f1b"}), 1);
  EXPECT_NEAR(share(4, 8, {"1f1b"}), (1 + 3 / 8.0) / 4, 1e-4);
  EXPECT_NEAR(share(4, 8, {"interleaved:chunks=2"}), (1 + 3 / 16.0) / 4, 1e-4);
  EXPECT_NEAR(share(4, 8, {"zb-h1"}), (1 + 1 / 8.0) / 4, 1e-4);
  EXPECT_NEAR(share(4, 8, {"serial"}), 1, 1e-4);
  EXPECT_EQ(share(4, 8, {"1f1b", "zb-h1"}), share(4, 8, {"zb-h1"}));
}

// Sixteen layers on three ranks: six on the longest.
TEST(ShareOfStages, CountsTheLongestStage) {
  EXPECT_NEAR(share(3, 6, {"gpipe"}), (1 + 2 / 6.0) * 6 / 16, 1e-3);
}

TEST(ShareOfStages, NeedsAScheduleForItsStages) {
  EXPECT_TRUE(std::isfinite(share(16, 16, {"1f1b"})));
  EXPECT_FALSE(std::isfinite(share(16, 16, {"interleaved"})));
  EXPECT_FALSE(std::isfinite(share(16, 16, {})));
}

}  // namespace
}  // namespace weft::study
