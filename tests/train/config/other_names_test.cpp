// The names that other programs give to Weft's keys.
#include "train/config/other_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

using Names = std::vector<std::string>;

Names all_keys() {
  Names names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  return names;
}

TEST(OtherNames, MeanKeys) {
  const Names known = all_keys();
  EXPECT_EQ(meant_by("batch-size", known), (Names{"global-batch", "micro-batch"}));
  EXPECT_EQ(meant_by("step", known), Names{"steps"});
  EXPECT_EQ(meant_by("max-iters", known), Names{"steps"});
  EXPECT_EQ(meant_by("layers", known), Names{"model.layers"});
  EXPECT_EQ(meant_by("hidden", known), Names{"model.hidden"});
  EXPECT_EQ(meant_by("learning-rate", known), Names{"lr"});
  EXPECT_EQ(meant_by("out", known), Names{"run-dir"});
  EXPECT_EQ(meant_by("o", known), Names{"run-dir"});
  EXPECT_EQ(meant_by("tensor-model-parallel-size", known), Names{"grid"});
  EXPECT_EQ(meant_by("num-hidden-layers", known), Names{"model.layers"});
  EXPECT_EQ(meant_by("training.steps", known), Names{"steps"});
  EXPECT_EQ(meant_by("model.n-embd", known), Names{"model.hidden"});
  EXPECT_EQ(meant_by("num-local-experts", known), Names{"model.experts"});
  EXPECT_EQ(meant_by("moe-router-topk", known), Names{"model.experts-per-token"});
  EXPECT_EQ(meant_by("eval-batches", known).front(), "eval-sequences");
  EXPECT_EQ(meant_by("log-interval", known), Names{"log-every"});
  EXPECT_EQ(meant_by("frobnicate", known), Names{});
  EXPECT_EQ(meant_by("", known), Names{});
  EXPECT_EQ(meant_by("out", Names{"output"}), Names{"output"});
}

TEST(OtherNames, AreSuggestedForKeysAndValues) {
  struct Case {
    const char *key, *value, *fix;
  };
  for (const Case& each : {Case{"batch_size", "8", "did you mean global-batch or micro-batch?"},
                           {"block_size", "8", "did you mean seq-len or model.context?"},
                           {"device", "gpu", "did you mean \"cuda\"?"},
                           {"dtype", "bfloat16", "did you mean \"bf16\"?"},
                           {"max-time", "20s", "fix: write 20"},
                           {"max-time", "1.5h", "fix: write 5400"},
                           {"watchdog", "2min", "fix: write 120"}}) {
    RunConfig config;
    const std::string message = testing::message_of<UserError>([&] { set_key(config, each.key, each.value, "--set"); });
    EXPECT_TRUE(testing::contains(message, each.fix)) << message;
  }
}

}  // namespace
}  // namespace weft::train
