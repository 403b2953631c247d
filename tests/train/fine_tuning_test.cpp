// Runs that count some of their targets alone, of completions or by a Goldfish loss; for epochs; that keep their best
// checkpoint.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/train/data/written_tokens.h"
#include "tests/train/near_numbers.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/saved_model.h"

namespace weft::train {
namespace {

/// Documents of 5 tokens of a prompt and up to 6 of a completion.
std::string write_examples(const testing::TemporaryFolder& folder) {
  std::vector<std::vector<std::int32_t>> documents;
  for (std::int32_t d = 0; d < 60; ++d) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(6 + d % 6));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 97 + (d * 7 + static_cast<std::int32_t>(i)) % 20;
    documents.push_back(ids);
  }
  return testing::write_documents(folder, "examples.bin", documents, 5);
}

RunConfig tuning_run(const testing::TemporaryFolder& folder, const std::string& run_dir) {
  RunConfig config = testing::tiny_run(folder, ops::Family::llama);
  config.data = write_examples(folder);
  config.val_split = ValSplit::documents;
  config.run_dir = folder.path(run_dir).string();
  config.dropout = 0;
  config.steps = 4;
  return config;
}

/// The run's losses, which are alike on the grids: their mean is over the targets that count on all ranks, in all
/// micro-batches, and their numbers differ.
std::vector<double> losses_on(const std::vector<graph::Grid>& grids,
                              const std::function<RunConfig(const std::string& run_dir)>& run) {
  const RunConfig one = run("one");
  const TrainResult expected = testing::train_run(one).result;
  for (const graph::Grid& grid : grids) {
    SCOPED_TRACE(graph::to_string(grid));
    RunConfig config = run(graph::to_string(grid));
    config.grid = grid;
    config.micro_batch = 2;
    testing::expect_near({*testing::trained_on_grid(config).val_loss}, {*expected.val_loss}, 1e-5);
    for (const char* key : {"loss", "grad_norm"}) {
      testing::expect_near(testing::metric(config.run_dir, key), testing::metric(one.run_dir, key), 1e-5, key);
    }
  }
  return testing::metric(one.run_dir, "loss");
}

TEST(FineTuning, LearnsCompletionsAlikeOnEveryGrid) {
  const testing::TemporaryFolder folder;
  losses_on({{1, 1, 2, 2}, {2, 1, 1, 2}}, [&](const std::string& run_dir) { return tuning_run(folder, run_dir); });
}

// 54 documents of 460 tokens are trained on: windows of 16, 8 a step.
TEST(FineTuning, EpochsTellTheSteps) {
  const testing::TemporaryFolder folder;
  RunConfig config = tuning_run(folder, "run");
  config.steps = 0;
  config.epochs = 2;
  const testing::RunOutcome whole = testing::train_run(config);
  const std::int64_t steps = whole.result.steps;
  const auto windows = static_cast<double>(testing::metrics_of(config.run_dir).size());
  EXPECT_EQ(static_cast<std::int64_t>(windows), steps);
  EXPECT_GE(steps, 6);
  EXPECT_LE(steps, 8);
  // A run that goes on takes them from its configuration, or more of them.
  RunConfig resumed = config_to_resume(config.run_dir, {});
  EXPECT_EQ(resumed.steps, 0);
  EXPECT_EQ(resumed.epochs, 2);
  apply_settings(resumed, {{"epochs", "3", "--epochs"}});
  EXPECT_GT(testing::train_run(resumed).result.steps_done, steps);
}

TEST(FineTuning, KeepsTheBestCheckpoint) {
  const testing::TemporaryFolder folder;
  RunConfig config = tuning_run(folder, "run");
  config.steps = 12;
  config.lr = 0.3;  // too much: the loss rises in between
  config.eval_every = 1;
  config.keep_last = 1;
  config.keep_best = true;
  testing::train_run(config);
  double lowest = std::numeric_limits<double>::infinity();
  std::int64_t best_step = 0;
  for (const nlohmann::json& line : testing::metrics_of(config.run_dir)) {
    if (line.at("val_loss").get<double>() > lowest) continue;
    lowest = line.at("val_loss").get<double>();
    best_step = line.at("step").get<std::int64_t>() + 1;
  }
  const auto best = best_checkpoint(config.run_dir);
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->folder.step, best_step);
  EXPECT_EQ(best->val_loss, lowest);
  EXPECT_EQ(complete_checkpoints(config.run_dir).back().step, 12);
  EXPECT_LE(complete_checkpoints(config.run_dir).size(), 2U);
  EXPECT_EQ(read_saved_model(folder.path("run/best")).checkpoint->step, best_step);

  // A run that goes on remembers it.
  config.resume = config.run_dir;
  config.steps = 14;
  config.lr = 0.5;
  testing::train_run(config);
  EXPECT_LE(best_checkpoint(config.run_dir)->val_loss, lowest);
}

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

TEST(GoldfishRun, TrainsAlikeOnEveryGrid) {
  const testing::TemporaryFolder folder;
  const auto losses = losses_on({{1, 1, 1, 4}, {2, 1, 2, 1}, {1, 2, 1, 2}}, [&](const std::string& run_dir) {
    return goldfish_run(folder, run_dir, "k=3,h=4,strategy=hash");
  });
  const RunConfig all = goldfish_run(folder, "all", "");
  const testing::RunOutcome without = testing::train_run(all);
  EXPECT_NE(testing::metric(all.run_dir, "loss"), losses);
  // Held-out loss counts all targets.
  RunConfig first = goldfish_run(folder, "first", "k=3,h=4,strategy=hash");
  first.steps = 1;
  EXPECT_EQ(without.result.first_val_loss, testing::train_run(first).result.first_val_loss);
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

}  // namespace
}  // namespace weft::train
