#include "train/trainer.h"

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
#include "train/checkpoint/checkpoint_folder.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

// -- resume -----------------------------------------------------------------------------------------------------------

class TrainerResume : public ::testing::TestWithParam<testing::RunKind> {};

INSTANTIATE_TEST_SUITE_P(Cases, TrainerResume,
                         ::testing::Values(testing::RunKind{ops::Family::gpt2, DType::f32, 2},
                                           testing::RunKind{ops::Family::gpt2, DType::bf16, 1},
                                           testing::RunKind{ops::Family::llama, DType::bf16, 2}),
                         testing::kNameOfParam);

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
  std::filesystem::remove_all(checkpoint_path(config.run_dir, 20));
  config.resume = "auto";
  const testing::RunOutcome second = testing::train_run(config);
  EXPECT_EQ(second.result.first_step, 10);
  EXPECT_EQ(second.result.steps_done, 20);
  EXPECT_EQ(testing::first_difference(second.state, whole.state), "");
  testing::expect_equal_metrics(testing::metrics_of(config.run_dir), lines);
  EXPECT_EQ(lines.size(), 20U);
}

class TrainerRun : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  RunConfig config_ = testing::tiny_run(folder_, ops::Family::gpt2);
};

TEST_F(TrainerRun, AutoBeginsANewRunWhereNoneIs) {
  config_.steps = 2;
  const testing::RunOutcome plain = testing::train_run(config_);
  config_.run_dir = folder_.path("another").string();
  config_.resume = "auto";
  const testing::RunOutcome fresh = testing::train_run(config_);
  EXPECT_EQ(fresh.result.first_step, 0);
  EXPECT_EQ(testing::first_difference(fresh.state, plain.state), "");
  const testing::RunOutcome done = testing::train_run(config_);
  EXPECT_EQ(done.result.first_step, 2);
  EXPECT_EQ(done.result.steps_done, 2);
  EXPECT_EQ(done.result.val_loss, fresh.result.val_loss);
}

TEST_F(TrainerRun, InitFromTakesTheWeightsAndNothingElse) {
  config_.model = testing::tiny_run(folder_, ops::Family::llama).model;
  config_.steps = 4;
  const testing::RunOutcome first = testing::train_run(config_);
  config_.init_from = config_.run_dir;
  config_.run_dir = folder_.path("second").string();
  config_.steps = 1;
  config_.lr = 0;
  const testing::RunOutcome second = testing::train_run(config_);
  EXPECT_EQ(second.result.first_step, 0);
  EXPECT_EQ(second.result.first_val_loss, first.result.val_loss);
  EXPECT_EQ(second.state.at("wte.weight"), first.state.at("wte.weight"));
  EXPECT_NE(second.state.at("wte.weight.m"), first.state.at("wte.weight.m"));
}

TEST_F(TrainerRun, AnotherModelsCheckpointIsRefusedBeforeAnythingIsWritten) {
  config_.steps = 1;
  testing::train_run(config_);
  config_.resume = config_.run_dir;
  config_.run_dir = folder_.path("second").string();
  ResolvedRun run = resolve(config_, 0);
  run.config.model.layers = 3;  // resolve() would refuse it
  const testing::RanksEnd end =
      testing::end_of_ranks(1, [&](comm::World& world) { run_training(*set_up_training(world, run)); });
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has_parts(end.errors, {"step_00000001", "fix: "}));
  EXPECT_FALSE(std::filesystem::exists(config_.run_dir));
}

// -- what a run leaves ------------------------------------------------------------------------------------------------

TEST_F(TrainerRun, AMetricsLineHasEveryKey) {
  config_.ranks = 2;
  config_.steps = 5;
  config_.eval_every = 2;
  const testing::RunOutcome outcome = testing::train_run(config_);
  const std::vector<nlohmann::json> lines = testing::metrics_of(config_.run_dir);
  ASSERT_EQ(lines.size(), 5U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const nlohmann::json& line = lines[i];
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    std::set<std::string> expected = {"step",        "loss",         "grad_norm",        "lr",
                                      "step_ms",     "tokens_per_s", "model_tflops",     "exposed_comm_ms",
                                      "tokens_seen", "wall_time",    "peak_memory_bytes"};
    if (i == 1 || i == 3 || i == 4) expected.insert("val_loss");  // every second step, and the last
    if (i == 0) expected.insert("val_loss_before");
    EXPECT_EQ(keys, expected);
    EXPECT_EQ(line.at("step"), i);
    EXPECT_NEAR(line.at("lr").get<double>(), learning_rate(config_, static_cast<std::int64_t>(i)), 1e-9);
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

TEST_F(TrainerRun, FilesOfARun) {
  config_.ranks = 2;
  config_.steps = 5;
  config_.save_every = 2;
  const testing::RunOutcome outcome = testing::train_run(config_);
  for (const std::int64_t step : {2, 4, 5}) {
    EXPECT_EQ(read_checkpoint_info(checkpoint_path(config_.run_dir, step)).step, step);
  }
  const CheckpointInfo info = read_checkpoint_info(checkpoint_path(config_.run_dir, 5));
  EXPECT_EQ(info.tokens_seen, 5U * 8 * 16);
  EXPECT_EQ(info.seed, config_.seed);
  std::set<std::string> names;
  for (const auto& file : outcome.result.files) {
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
    names.insert(file.filename().string());
  }
  for (const char* name : {"metrics.jsonl", "graph.svg", "trace.json", "step_00000005"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const auto trace = nlohmann::json::parse(testing::TemporaryFolder::read(folder_.path("run/trace.json")));
  EXPECT_TRUE(trace.is_object());
  // config.toml runs the same again.
  RunConfig again;
  load_toml(again, folder_.path("run/config.toml").string());
  again.run_dir = folder_.path("again").string();
  EXPECT_EQ(testing::first_difference(testing::train_run(again).state, outcome.state), "");
}

// -- ends -------------------------------------------------------------------------------------------------------------

TEST_F(TrainerRun, MaxTimeEndsTheRunBehindAStepWithACheckpoint) {
  config_.ranks = 2;
  config_.steps = 1000;
  config_.max_time = 1e-6;  // the evaluation before the first step takes longer
  const testing::RunOutcome outcome = testing::train_run(config_);
  EXPECT_TRUE(outcome.result.stopped_by_time);
  EXPECT_FALSE(outcome.result.stopped_by_signal);
  EXPECT_EQ(outcome.result.steps_done, 1);
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(config_.run_dir, 1)).step, 1);
  EXPECT_FALSE(outcome.result.first_val_loss.has_value());
  EXPECT_FALSE(outcome.result.val_loss.has_value());
  EXPECT_FALSE(testing::metrics_of(config_.run_dir).back().contains("val_loss"));
}

TEST_F(TrainerRun, MaxTimeEndsTheDecayOfTheLearningRate) {
  config_.ranks = 2;
  config_.warmup = 0;
  config_.min_lr = 1e-3;
  config_.max_time = 1e-6;
  testing::train_run(config_);
  EXPECT_EQ(testing::metric(config_.run_dir, "lr"), std::vector<double>{1e-3F});
}

TEST_F(TrainerRun, ALimitFarAwayChangesNoBit) {
  config_.ranks = 2;
  const testing::RunOutcome usual = testing::train_run(config_);
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(config_.run_dir, 10)).decay_seconds, 0);
  config_.run_dir = folder_.path("timed").string();
  config_.max_time = 1e9;
  EXPECT_EQ(testing::first_difference(testing::train_run(config_).state, usual.state), "");
  EXPECT_GT(read_checkpoint_info(checkpoint_path(config_.run_dir, 10)).decay_seconds, 0);
}

// Half of the decay's time was used before.
TEST_F(TrainerRun, ATimedRunGoesOnWithItsDecay) {
  config_.ranks = 2;
  config_.steps = 4;
  config_.max_time = 1e9;
  testing::train_run(config_);
  const std::filesystem::path manifest = checkpoint_path(config_.run_dir, 4) / kManifestFile;
  Manifest used = read_manifest(manifest.parent_path());
  used.info.decay_seconds = 1e9;
  std::ofstream(manifest) << to_json(used);
  config_.steps = 9;
  config_.schedule = Schedule::linear;
  config_.resume = std::string(kResumeAuto);
  testing::train_run(config_);
  const std::vector<double> lr = testing::metric(config_.run_dir, "lr");
  ASSERT_EQ(lr.size(), 9U);
  for (const auto& [step, as_at] : {std::pair{4U, 6}, std::pair{5U, 6}, std::pair{6U, 6}, std::pair{7U, 7}}) {
    EXPECT_NEAR(lr[step], learning_rate(config_, as_at), 1e-6 * config_.lr) << step;
  }
}

TEST_F(TrainerRun, AnEarlierRunsFilesMakeRoom) {
  config_.steps = 2;
  testing::train_run(config_);
  folder_.write("run/mine.txt", "kept");
  config_.steps = 1;
  const ResolvedRun run = resolve(config_, 0);
  testing::on_ranks(1, [&](comm::World& world) { run_training(*set_up_training(world, run), /*removes_old=*/true); });
  EXPECT_EQ(testing::metrics_of(config_.run_dir).size(), 1U);
  EXPECT_EQ(complete_checkpoints(config_.run_dir).size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(config_.run_dir, 1)));
  EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("run/mine.txt")), "kept");
}

TEST_F(TrainerRun, SampleFitsAContextOfTwoTokens) {
  config_.model = testing::tiny_run(folder_, ops::Family::llama).model;
  config_.model.context = 2;
  config_.steps = 1;
  config_.eval_sequences = 2;
  const testing::RunOutcome outcome = testing::train_run(config_);
  EXPECT_EQ(outcome.result.sample.substr(0, 1), "T");  // behind the token that begins a text
  EXPECT_GT(outcome.result.sample.size(), 1U);
}

TEST_F(TrainerRun, SamplesChangeNothing) {
  config_.steps = 6;
  config_.eval_sequences = 2;
  const testing::RunOutcome plain = testing::train_run(config_);
  config_.run_dir = folder_.path("sampled").string();
  config_.sample_every = 2;
  ::testing::internal::CaptureStderr();
  const ResolvedRun run = resolve(config_, 0);
  TrainResult result;
  testing::on_ranks(1, [&](comm::World& world) { result = run_training(*set_up_training(world, run, nullptr, true)); });
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.last_loss, plain.result.last_loss);
  EXPECT_EQ(result.sample, plain.result.sample);
  EXPECT_TRUE(has_parts(told, {"a sample after step 2: The ", "a sample after step 4: The "}));
  EXPECT_EQ(told.find("a sample after step 6"), std::string::npos);  // close() made it
}

TEST_F(TrainerRun, LearnsTheTextsRule) {
  config_.steps = 60;
  config_.dropout = 0;
  config_.clip = 1;
  const testing::RunOutcome outcome = testing::train_run(config_);
  EXPECT_LT(outcome.result.val_loss.value(), 0.55 * outcome.result.first_val_loss.value());
  EXPECT_LT(outcome.result.last_loss, 0.55 * outcome.result.first_loss);
}

}  // namespace
}  // namespace weft::train
