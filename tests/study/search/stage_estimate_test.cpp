#include "study/search/stage_estimate.h"

#include <gtest/gtest.h>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::study {
namespace {

/// Sixteen layers, so large that a head of few tokens counts for nothing.
train::RunConfig alike_layers(std::int64_t batch) {
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

std::vector<policy::NamedPolicy> named(const std::vector<std::string>& names) {
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : names) policies.push_back(policy::named_policy(name));
  return policies;
}

double factor(std::int64_t pipe, std::int64_t batch, const std::string& schedule) {
  return StageEstimate(alike_layers(batch), {.grid = {.pipe = pipe}}, named({schedule})).step_ns(1);
}

// The published idle times, for weights that take a third of the work.
TEST(StageEstimate, HasThePublishedIdleTimes) {
  EXPECT_EQ(factor(1, 8, "1f1b"), 1);
  EXPECT_NEAR(factor(4, 8, "1f1b"), (1 + 3 / 8.0) / 4, 1e-4);
  EXPECT_NEAR(factor(4, 8, "interleaved:chunks=2"), (1 + 3 / 16.0) / 4, 1e-4);
  EXPECT_NEAR(factor(4, 8, "zb-h1"), (1 + 1 / 8.0) / 4, 1e-4);
  EXPECT_NEAR(factor(4, 8, "serial"), 1, 1e-4);
  const auto both = named({"1f1b", "zb-h1"});
  EXPECT_EQ(StageEstimate(alike_layers(8), {.grid = {.pipe = 4}}, both).step_ns(1), factor(4, 8, "zb-h1"));
  EXPECT_EQ(StageEstimate(alike_layers(8), {.grid = {.pipe = 4}}, both).least_ns(1), 0.25);
}

// Sixteen layers on three ranks: six on the longest.
TEST(StageEstimate, CountsTheLongestStage) {
  EXPECT_NEAR(factor(3, 6, "gpipe"), (1 + 2 / 6.0) * 6 / 16, 1e-3);
}

TEST(StageEstimate, NeedsAScheduleForItsStages) {
  EXPECT_TRUE(StageEstimate(alike_layers(16), {.grid = {.pipe = 16}}, named({"1f1b"})).possible());
  EXPECT_FALSE(StageEstimate(alike_layers(16), {.grid = {.pipe = 16}}, named({"interleaved"})).possible());
}

}  // namespace
}  // namespace weft::study
