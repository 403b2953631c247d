// Runs whose training drops targets from its loss.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/train/near_numbers.h"
#include "tests/train/tiny_run.h"

namespace weft::train {
namespace {

RunConfig goldfish_run(const testing::TemporaryFolder& folder, const std::string& run_dir,
                       const std::string& goldfish) {
  RunConfig config = testing::tiny_run(folder, ops::Family::llama);
  config.run_dir = folder.path(run_dir).string();
  config.dropout = 0;
  config.steps = 6;
  config.save_every = 3;
  config.keep_last = 0;
  config.goldfish = goldfish_of(goldfish, "goldfish");
  return config;
}

// The mean is over the targets that count on all ranks, in all micro-batches, whose numbers differ.
TEST(GoldfishRun, TrainsAlikeOnEveryGrid) {
  const testing::TemporaryFolder folder;
  const RunConfig one = goldfish_run(folder, "one", "k=3,h=4,strategy=hash");
  const testing::RunOutcome expected = testing::train_run(one);
  const std::vector<double> losses = testing::metric(one.run_dir, "loss");
  for (const graph::Grid grid : {graph::Grid{1, 1, 1, 4}, graph::Grid{2, 1, 2, 1}, graph::Grid{1, 2, 1, 2}}) {
    RunConfig config = goldfish_run(folder, graph::to_string(grid), "k=3,h=4,strategy=hash");
    config.grid = grid;
    config.micro_batch = 2;
    testing::trained_on_grid(config);
    testing::expect_near(testing::metric(config.run_dir, "loss"), losses, 1e-5);
    testing::expect_near(testing::metric(config.run_dir, "grad_norm"), testing::metric(one.run_dir, "grad_norm"), 1e-5);
  }
  const RunConfig all = goldfish_run(folder, "all", "");
  const testing::RunOutcome without = testing::train_run(all);
  EXPECT_NE(testing::metric(all.run_dir, "loss"), losses);
  // Held-out loss counts all targets.
  EXPECT_EQ(without.result.first_val_loss, expected.result.first_val_loss);
}

TEST(GoldfishRun, GoesOnWithTheSameMasks) {
  for (const std::string strategy : {"k=3,h=4,strategy=hash", "k=3,strategy=random"}) {
    const testing::TemporaryFolder folder;
    const testing::RunOutcome whole = testing::train_run(goldfish_run(folder, "whole", strategy));
    RunConfig config = goldfish_run(folder, "rest", strategy);
    config.resume = folder.path("whole/checkpoints/step_00000003").string();
    const testing::RunOutcome rest = testing::train_run(config);
    EXPECT_EQ(rest.result.first_step, 3);
    EXPECT_EQ(testing::first_difference(rest.state, whole.state), "") << strategy;
  }
}

TEST(GoldfishRun, AContextLongerThanASequenceIsRefused) {
  const testing::TemporaryFolder folder;
  const RunConfig config = goldfish_run(folder, "run", "k=3,h=17,strategy=hash");
  EXPECT_THROW(resolve(config, 0), UserError);
}

}  // namespace
}  // namespace weft::train
