// AxoNN's model against values worked out from its paper's formula and the bandwidths of its script.
#include "study/search/axonn_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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

}  // namespace
}  // namespace weft::study
