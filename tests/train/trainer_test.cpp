#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/messages.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/schedule.h"

namespace weft::train {
namespace {

std::filesystem::path checkpoint_at(const RunConfig& config, std::int64_t step) {
  return std::filesystem::path(config.run_dir) / "checkpoints" / fmt::format("step_{:08}", step);
}

// -- resume -----------------------------------------------------------------------------------------------------------

struct ResumeCase {
  ops::Family family;
  DType dtype;
  std::int64_t ranks;
};

class TrainerResume : public ::testing::TestWithParam<ResumeCase> {};

INSTANTIATE_TEST_SUITE_P(Cases, TrainerResume,
                         ::testing::Values(ResumeCase{ops::Family::gpt2, DType::f32, 2},
                                           ResumeCase{ops::Family::gpt2, DType::bf16, 1},
                                           ResumeCase{ops::Family::llama, DType::bf16, 2}),
                         [](const auto& info) {
                           return std::string(to_string(info.param.family)) + "_" +
                                  std::string(to_string(info.param.dtype)) + "_" + std::to_string(info.param.ranks) +
                                  "Ranks";
                         });

// In the middle of an epoch: 80 of the text's 224 windows are read when the first half ends.
TEST_P(TrainerResume, TenAndTenStepsAreTwenty) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, GetParam().family);
  config.dtype = GetParam().dtype;
  config.ranks = GetParam().ranks;
  config.steps = 20;
  config.save_every = 10;
  config.eval_every = 5;
  const testing::RunOutcome whole = testing::train_run(config);
  const std::vector<nlohmann::json> lines = testing::metrics_of(config.run_dir);

  // As if the run had ended after step 10, with a few more steps in its metrics than in its checkpoint.
  std::filesystem::remove_all(checkpoint_at(config, 20));
  config.resume = "auto";
  const testing::RunOutcome second = testing::train_run(config);
  EXPECT_EQ(second.result.first_step, 10);
  EXPECT_EQ(second.result.steps_done, 20);
  EXPECT_EQ(testing::first_difference(second.state, whole.state), "");
  const std::vector<nlohmann::json> again = testing::metrics_of(config.run_dir);
  ASSERT_EQ(again.size(), 20U);
  for (std::size_t i = 0; i < again.size(); ++i) {
    for (const char* key : {"step", "loss", "grad_norm", "lr"}) EXPECT_EQ(again[i].at(key), lines[i].at(key)) << i;
    EXPECT_EQ(again[i].contains("val_loss"), lines[i].contains("val_loss")) << i;
    if (lines[i].contains("val_loss")) {
      EXPECT_EQ(again[i].at("val_loss"), lines[i].at("val_loss")) << i;
    }
  }
}

TEST(Trainer, AutoBeginsANewRunWhereNoneIs) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.steps = 2;
  const testing::RunOutcome plain = testing::train_run(config);
  config.run_dir = folder.path("another").string();
  config.resume = "auto";
  const testing::RunOutcome fresh = testing::train_run(config);
  EXPECT_EQ(fresh.result.first_step, 0);
  EXPECT_EQ(testing::first_difference(fresh.state, plain.state), "");
  const testing::RunOutcome done = testing::train_run(config);
  EXPECT_EQ(done.result.first_step, 2);
  EXPECT_EQ(done.result.steps_done, 2);
  EXPECT_EQ(done.result.val_loss, fresh.result.val_loss);
}

TEST(Trainer, InitFromTakesTheWeightsAndNothingElse) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::llama);
  config.steps = 4;
  const testing::RunOutcome first = testing::train_run(config);
  config.init_from = config.run_dir;
  config.run_dir = folder.path("second").string();
  config.steps = 1;
  config.lr = 0;
  const testing::RunOutcome second = testing::train_run(config);
  EXPECT_EQ(second.result.first_step, 0);
  EXPECT_EQ(second.result.first_val_loss, first.result.val_loss);
  EXPECT_EQ(second.state.at("wte.weight"), first.state.at("wte.weight"));
  EXPECT_NE(second.state.at("wte.weight.m"), first.state.at("wte.weight.m"));
}

TEST(Trainer, AnotherModelsCheckpointIsRefusedBeforeAnythingIsWritten) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.steps = 1;
  testing::train_run(config);
  config.resume = config.run_dir;
  config.run_dir = folder.path("second").string();
  ResolvedRun run = resolve(config, 0);
  run.config.model.layers = 3;  // resolve() would refuse it
  const testing::RanksEnd end =
      testing::end_of_ranks(1, [&](comm::World& world) { Trainer(world, run, Trainer::Console::silent).run(); });
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has_parts(end.errors, {"step_00000001", "fix: "}));
  EXPECT_FALSE(std::filesystem::exists(config.run_dir));
}

// -- what a run leaves ------------------------------------------------------------------------------------------------

TEST(Trainer, AMetricsLineHasEveryKey) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.steps = 5;
  config.eval_every = 2;
  const testing::RunOutcome outcome = testing::train_run(config);
  const std::vector<nlohmann::json> lines = testing::metrics_of(config.run_dir);
  ASSERT_EQ(lines.size(), 5U);
  const LearningRate schedule{config.schedule, 5, config.warmup, config.lr, config.min_lr};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const nlohmann::json& line = lines[i];
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    std::set<std::string> expected = {"step",
                                      "loss",
                                      "grad_norm",
                                      "lr",
                                      "step_ms",
                                      "tokens_per_s",
                                      "model_tflops",
                                      "exposed_comm_ms",
                                      "peak_memory_bytes",
                                      "tokens_seen",
                                      "wall_time"};
    if (i == 1 || i == 3 || i == 4) expected.insert("val_loss");  // every second step, and the last
    EXPECT_EQ(keys, expected);
    EXPECT_EQ(line.at("step"), i);
    EXPECT_NEAR(line.at("lr").get<double>(), schedule.at(static_cast<std::int64_t>(i)), 1e-9);
    EXPECT_GT(line.at("step_ms").get<double>(), 0);
    EXPECT_NEAR(line.at("tokens_per_s").get<double>(), 8 * 16 * 1e3 / line.at("step_ms").get<double>(),
                1e-3 * line.at("tokens_per_s").get<double>());
    EXPECT_GT(line.at("grad_norm").get<double>(), 0);
    EXPECT_GT(line.at("peak_memory_bytes").get<std::int64_t>(), 1 << 20);
    EXPECT_EQ(line.at("tokens_seen"), (i + 1) * 8 * 16);
  }
  EXPECT_EQ(lines.back().at("val_loss").get<double>(), outcome.result.val_loss);
  EXPECT_NEAR(outcome.result.first_val_loss.value(), std::log(257.0), 0.1);
  EXPECT_FALSE(outcome.result.stopped_by_signal);
  EXPECT_FALSE(outcome.result.stopped_by_time);
}

TEST(Trainer, FilesOfARun) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.steps = 5;
  config.save_every = 2;
  const testing::RunOutcome outcome = testing::train_run(config);
  for (const std::int64_t step : {2, 4, 5}) {
    EXPECT_EQ(read_checkpoint_info(checkpoint_at(config, step)).step, step);
  }
  const CheckpointInfo info = read_checkpoint_info(checkpoint_at(config, 5));
  EXPECT_EQ(info.tokens_seen, 5U * 8 * 16);
  EXPECT_EQ(info.seed, config.seed);
  std::set<std::string> names;
  for (const auto& file : outcome.result.files) {
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
    names.insert(file.filename().string());
  }
  for (const char* name : {"metrics.jsonl", "graph.svg", "trace.json", "step_00000005"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const auto trace = nlohmann::json::parse(testing::TemporaryFolder::read(folder.path("run/trace.json")));
  EXPECT_TRUE(trace.is_object());
  // config.toml runs the same again.
  RunConfig again;
  load_toml(again, folder.path("run/config.toml").string());
  again.run_dir = folder.path("again").string();
  EXPECT_EQ(testing::first_difference(testing::train_run(again).state, outcome.state), "");
}

// -- ends -------------------------------------------------------------------------------------------------------------

TEST(Trainer, MaxTimeEndsTheRunBehindAStepWithACheckpoint) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.steps = 1000;
  config.max_time = 1e-6;  // the evaluation before the first step takes longer
  const testing::RunOutcome outcome = testing::train_run(config);
  EXPECT_TRUE(outcome.result.stopped_by_time);
  EXPECT_FALSE(outcome.result.stopped_by_signal);
  EXPECT_EQ(outcome.result.steps_done, 1);
  EXPECT_EQ(read_checkpoint_info(checkpoint_at(config, 1)).step, 1);
  EXPECT_FALSE(outcome.result.first_val_loss.has_value());
  EXPECT_FALSE(outcome.result.val_loss.has_value());
  EXPECT_FALSE(testing::metrics_of(config.run_dir).back().contains("val_loss"));
}

TEST(Trainer, MaxTimeEndsTheDecayOfTheLearningRate) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.warmup = 0;
  config.min_lr = 1e-3;
  config.max_time = 1e-6;
  testing::train_run(config);
  EXPECT_EQ(testing::metric(config.run_dir, "lr"), std::vector<double>{1e-3F});
}

TEST(Trainer, ALimitFarAwayChangesNoBit) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  const testing::RunOutcome usual = testing::train_run(config);
  EXPECT_EQ(read_checkpoint_info(checkpoint_at(config, 10)).decay_seconds, 0);
  config.run_dir = folder.path("timed").string();
  config.max_time = 1e9;
  EXPECT_EQ(testing::first_difference(testing::train_run(config).state, usual.state), "");
  EXPECT_GT(read_checkpoint_info(checkpoint_at(config, 10)).decay_seconds, 0);
}

// Half of the decay's time was used before.
TEST(Trainer, ATimedRunGoesOnWithItsDecay) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.steps = 4;
  config.max_time = 1e9;
  testing::train_run(config);
  const std::filesystem::path manifest = checkpoint_at(config, 4) / kManifestFile;
  Manifest used = read_manifest(manifest.parent_path());
  used.info.decay_seconds = 1e9;
  std::ofstream(manifest) << to_json(used);
  config.steps = 9;
  config.schedule = Schedule::linear;
  config.resume = std::string(kResumeAuto);
  testing::train_run(config);
  const LearningRate schedule{config.schedule, config.steps, config.warmup, config.lr, config.min_lr};
  const std::vector<double> lr = testing::metric(config.run_dir, "lr");
  ASSERT_EQ(lr.size(), 9U);
  for (const auto& [step, as_at] : {std::pair{4U, 6}, std::pair{5U, 6}, std::pair{6U, 6}, std::pair{7U, 7}}) {
    EXPECT_NEAR(lr[step], schedule.at(as_at), 1e-6 * config.lr) << step;
  }
}

TEST(Trainer, AnEarlierRunsFilesMakeRoom) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.steps = 2;
  testing::train_run(config);
  folder.write("run/mine.txt", "kept");
  config.steps = 1;
  const ResolvedRun run = resolve(config, 0);
  testing::on_ranks(
      1, [&](comm::World& world) { Trainer(world, run, Trainer::Console::silent).run(Trainer::OldFiles::removed); });
  EXPECT_EQ(testing::metrics_of(config.run_dir).size(), 1U);
  EXPECT_EQ(complete_checkpoints(config.run_dir).size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(checkpoint_at(config, 1)));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("run/mine.txt")), "kept");
}

TEST(Trainer, SampleFitsAContextOfTwoTokens) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::llama);
  config.model.context = 2;
  config.steps = 1;
  config.eval_sequences = 2;
  const testing::RunOutcome outcome = testing::train_run(config);
  EXPECT_EQ(outcome.result.sample.substr(0, 2), "Th");
  EXPECT_GT(outcome.result.sample.size(), 2U);
}

TEST(Trainer, LearnsTheTextsRule) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.steps = 60;
  config.dropout = 0;
  config.clip = 1;
  const testing::RunOutcome outcome = testing::train_run(config);
  EXPECT_LT(outcome.result.val_loss.value(), 0.55 * outcome.result.first_val_loss.value());
  EXPECT_LT(outcome.result.last_loss, 0.55 * outcome.result.first_loss);
}

}  // namespace
}  // namespace weft::train
