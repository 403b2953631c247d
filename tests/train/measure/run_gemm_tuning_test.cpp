// The tuned products of a run: the rank that reads them, the runs that may tune, the table that a run saves, and its
// use by a resumed run.
#include "train/measure/run_gemm_tuning.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/evaluation.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

execute::TunedGemms table() {
  execute::GemmProblem problem;
  problem.m = 64, problem.n = 96, problem.k = 32;
  problem.trans_b = true;
  problem.strides = {32, 32, 288};
  return {execute::this_machine(), 3,
          execute::GemmTuning({{problem, cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, 8, 96}}})};
}

// Rank 0 reads the table for all ranks.
TEST(GemmTuningOfRun, AllRanksGetRankZerosFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("t.json", execute::to_json(table()));
  const std::string empty = folder.write("empty.json", "");
  const int code = comm::run_ranks(3, [&](comm::World& world) {
    const TuningSetting setting = tuning_setting(world.rank() == 0 ? path : "nowhere.json");
    const auto tuned = gemm_tuning_of_run(world, setting, std::nullopt, StoredTuning::required);
    EXPECT_NE(tuned, nullptr);
    EXPECT_EQ(tuned->table.fingerprint(), table().table.fingerprint());
    EXPECT_EQ(execute::table_of(tuned)->fingerprint(), tuned->table.fingerprint());
    for (const std::string none : {"", "none"}) {
      EXPECT_EQ(gemm_tuning_of_run(world, tuning_setting(none), std::nullopt, StoredTuning::required), nullptr);
    }
    EXPECT_EQ(execute::table_of(nullptr), nullptr);
    return 0;
  });
  EXPECT_EQ(code, 0);
  const auto read_empty = [&](comm::World& world) {
    gemm_tuning_of_run(world, tuning_setting(empty), std::nullopt, StoredTuning::if_it_fits);
  };
  const testing::RanksEnd end = testing::end_of_ranks(2, read_empty);
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has_parts(end.errors, {"empty.json"}));
}

// A step has the products of a forward pass and twice as many operations backward, in each micro-batch; an evaluation
// has one forward pass.
TEST(ProductsOfRun, StepsAndEvaluationsAreCountedApart) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.global_batch = 6;
  config.micro_batch = 2;
  config.grid.pipe = 2;
  config.ranks = 2;
  std::int64_t of_step = 0, of_evaluation = 0;
  for (const RunProduct& product : products_of_run(resolve(config, 0))) {
    const std::int64_t operations = 2 * product.problem.m * product.problem.n * product.problem.k;
    of_step += operations * product.step_tasks;
    of_evaluation += operations * product.evaluation_tasks;
    EXPECT_GT(product.step_tasks + product.evaluation_tasks, 0);
  }
  EXPECT_GT(of_evaluation, 0);
  EXPECT_EQ(of_step, 3 * 3 * of_evaluation);
}

TEST(AutoTuning, OnlyTrainingTunes) {
  const int code = comm::run_ranks(2, [&](comm::World& world) {
    if (world.rank() == 0) {
      EXPECT_THROW(gemm_tuning_of_run(world, tuning_setting("auto"), std::nullopt, StoredTuning::required), UserError);
      throw UserError("done", "", "");
    }
    EXPECT_THROW(gemm_tuning_of_run(world, tuning_setting("auto"), std::nullopt, StoredTuning::required),
                 comm::PeerLost);
    return 0;
  });
  EXPECT_NE(code, 0);
}

TEST(AutoTuning, ARunTunesAndResumesWithWhatItsCheckpointHolds) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.ranks = 2;
  config.steps = 4;
  config.run_dir = folder.path("runs/one").string();
  config.gemm_tuning = "auto";
  const ResolvedRun resolved = resolve(config, 0);
  const execute::GemmTuningCache cache{folder.path("runs/gemm_tuning"), execute::this_machine(),
                                       static_cast<int>(resolved.config.threads)};
  // So that the run measures nothing: every product gets a method that isn't the default.
  std::vector<execute::GemmProblem> problems;
  for (const RunProduct& product : products_of_run(resolved)) problems.push_back(product.problem);
  cache.complete(
      problems,
      [](const execute::GemmProblem& problem) {
        execute::GemmTrial trial;
        trial.problem = problem;
        trial.usual = *execute::parse_gemm_method("sgemm 64x64");
        trial.chosen = *execute::parse_gemm_method("sgemm 64x32");
        return trial;
      },
      [](const Status&) {});
  const std::string cached = testing::TemporaryFolder::read(cache.file());
  const testing::RunOutcome tuned = testing::train_run(config);
  EXPECT_EQ(testing::TemporaryFolder::read(cache.file()), cached);
  const execute::TunedGemms of_run = execute::parse_gemm_tuning(
      execute::read_gemm_tuning_text(std::filesystem::path(config.run_dir) / execute::kGemmTuningFile), "run");
  EXPECT_EQ(of_run.table.choices().size(), problems.size());

  // Without the cache a resumed run still has its table.
  std::filesystem::remove(cache.file());
  config.resume = checkpoint_path(config.run_dir, 4).string();
  config.run_dir = folder.path("runs/two").string();
  config.steps = 6;
  testing::train_run(config);
  EXPECT_FALSE(std::filesystem::exists(cache.file()));
  EXPECT_EQ(testing::TemporaryFolder::read(std::filesystem::path(config.run_dir) / execute::kGemmTuningFile),
            execute::to_json(of_run));
}

TEST(GemmTuningOfRuns, ProductsOfATf32RunAreAskedForByTf32) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.device = DeviceKind::cuda;
  for (const bool tf32 : {false, true}) {
    config.tf32 = tf32;
    for (const RunProduct& product : products_of_run(resolve(config, 0))) EXPECT_EQ(product.problem.tf32, tf32);
  }
  config.device = DeviceKind::cpu;
  EXPECT_THROW(gemm_trials(config, 1, true), UserError);
}

// Each layer in each of six micro-batches; only the gradient may be computed by engines of any bits.
TEST(GemmTuningOfRuns, AttentionOfGpusInBf16HasAChoice) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.device = DeviceKind::cuda;
  config.dtype = DType::bf16;
  config.global_batch = 6;
  config.micro_batch = 1;
  for (const auto gradient : {execute::AttentionGradient::deterministic, execute::AttentionGradient::fastest}) {
    config.attention_gradient = gradient;
    const ResolvedRun run = resolve(config, 0);
    const std::int64_t layers = run.config.model.layers;
    std::int64_t forward = 0, backward = 0, evaluation = 0;
    for (const RunAttention& attention : attention_of_run(run)) {
      (attention.problem.backward ? backward : forward) += attention.step_tasks;
      evaluation += attention.evaluation_tasks;
      EXPECT_EQ(attention.problem.any_bits,
                attention.problem.backward && gradient == execute::AttentionGradient::fastest);
    }
    EXPECT_EQ(forward, 6 * layers);
    EXPECT_EQ(backward, 6 * layers);
    EXPECT_EQ(evaluation, layers);
  }
  config.attention_gradient = execute::AttentionGradient::deterministic;
  config.dtype = DType::f32;
  EXPECT_TRUE(attention_of_run(resolve(config, 0)).empty());
  config.device = DeviceKind::cpu;
  config.dtype = DType::bf16;
  EXPECT_TRUE(attention_of_run(resolve(config, 0)).empty());
}

/// For every product of a run a method that isn't the default, where it has one.
execute::TunedGemms other_methods(RunConfig config) {
  fill_in(config, 0);
  const auto train = ops::lower_train(config.model, step_config(config)),
             eval = ops::lower_eval(config.model, step_config(config));
  std::vector<execute::GemmChoice> choices;
  for (const execute::GemmUse& use : execute::products_of(std::array{train, eval})) {
    const execute::GemmProblem& p = use.problem;
    choices.push_back({p, cpu::gemm_methods(p.shape(), p.inputs, p.output).back()});
  }
  return {execute::this_machine(), 1, execute::GemmTuning(std::move(choices))};
}

class TunedRun : public ::testing::Test {
 protected:
  TunedRun() : config_(testing::tiny_run(folder_, ops::Family::llama)) {
    // Long sums, so that another order of adding shows in the bits.
    config_.model.ffn = 600;
    config_.ranks = 2;
    config_.save_every = 5;
    tuned_ = other_methods(config_);
    config_.gemm_tuning = folder_.write("tuned.json", execute::to_json(tuned_));
  }
  RunConfig in(const std::string& run_dir) const {
    RunConfig config = config_;
    config.run_dir = folder_.path(run_dir).string();
    return config;
  }
  RunConfig resumed_in(const std::string& run_dir, const RunConfig& from, const std::string& tuning) const {
    RunConfig config = in(run_dir);
    config.resume = checkpoint_path(from.run_dir, 5).string();
    config.gemm_tuning = tuning;
    return config;
  }

  testing::TemporaryFolder folder_;
  RunConfig config_;
  execute::TunedGemms tuned_;
};

TEST_F(TunedRun, LeavesItsTableInTheRunAndInEachCheckpoint) {
  const RunConfig run = in("run");
  testing::train_run(run);
  const std::string written = execute::to_json(tuned_);
  EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("run/gemm_tuning.json")), written);
  for (const std::int64_t step : {5, 10}) {
    EXPECT_EQ(read_checkpoint_info(checkpoint_path(run.run_dir, step)).gemm_tuning, written);
    EXPECT_EQ(testing::TemporaryFolder::read(checkpoint_path(run.run_dir, step) / execute::kGemmTuningFile), written);
  }
  // The run's own configuration names the run's own copy, so that it runs the same again.
  RunConfig again;
  load_toml(again, folder_.path("run/config.toml").string());
  EXPECT_EQ(again.gemm_tuning, folder_.path("run/gemm_tuning.json").string());
  std::string damaged = written;
  damaged[damaged.size() / 2] ^= 1;
  folder_.write("run/checkpoints/step_00000005/gemm_tuning.json", damaged);
  EXPECT_TRUE(
      refuses([&] { read_checkpoint_info(checkpoint_path(run.run_dir, 5)); }, {"gemm_tuning.json", "checksum"}));
}

TEST_F(TunedRun, WithoutATableNothingOfItIsWritten) {
  RunConfig run = in("run");
  run.gemm_tuning.clear();
  testing::train_run(run);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("run/gemm_tuning.json")));
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(run.run_dir, 10)).gemm_tuning, "");
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(run.run_dir, 10) / execute::kGemmTuningFile));
}

TEST_F(TunedRun, GoesOnBitForBitWithTheCheckpointsTable) {
  const RunConfig whole = in("whole");
  const testing::RunOutcome expected = testing::train_run(whole);
  std::filesystem::remove(config_.gemm_tuning);
  // Threads and policy may differ, as always.
  RunConfig rest = resumed_in("rest", whole, "");
  rest.threads = 2;
  rest.policy = "serial";
  EXPECT_EQ(testing::first_difference(testing::train_run(rest).state, expected.state), "");
  EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("rest/gemm_tuning.json")), execute::to_json(tuned_));
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(rest.run_dir, 10)).gemm_tuning, execute::to_json(tuned_));
}

// Equal bits may be luck where all methods add in one order; equal plans are not.
TEST_F(TunedRun, ThePlanNamesTheTable) {
  const RunConfig whole = in("whole");
  testing::train_run(whole);
  RunConfig plain = in("plain");
  plain.gemm_tuning.clear();
  const std::uint64_t tuned = testing::plan_fingerprint(in("same")), untuned = testing::plan_fingerprint(plain);
  EXPECT_NE(tuned, untuned);
  EXPECT_EQ(testing::plan_fingerprint(resumed_in("rest", whole, "")), tuned);
  EXPECT_EQ(testing::plan_fingerprint(resumed_in("rest", whole, "none")), untuned);
  const execute::TunedGemms empty{execute::this_machine(), 1, execute::GemmTuning()};
  EXPECT_EQ(testing::plan_fingerprint(resumed_in("rest", whole, folder_.write("empty.json", execute::to_json(empty)))),
            untuned);
}

// Of another machine: going on can't repeat the bits, while an evaluation needs none.
TEST_F(TunedRun, AForeignTableIsRefusedWhereItsBitsMatter) {
  CheckpointInfo info;
  info.model = config_.model;
  info.gemm_tuning = execute::to_json(execute::TunedGemms{{"another cpu", "oneDNN 1.0"}, 1, execute::GemmTuning()});
  const std::filesystem::path saved = save_checkpoint(folder_.path("foreign"), info, {});
  std::ostringstream errors;
  const auto body = [&](StoredTuning stored, const std::string& setting) {
    return comm::run_ranks(
        2,
        [&](comm::World& world) {
          EXPECT_EQ(gemm_tuning_of_run(world, tuning_setting(setting), saved, stored), nullptr);
          return 0;
        },
        errors);
  };
  EXPECT_EQ(body(StoredTuning::if_it_fits, ""), 0) << errors.str();
  EXPECT_EQ(body(StoredTuning::required, "none"), 0) << errors.str();
  EXPECT_EQ(body(StoredTuning::required, ""), 2);
  EXPECT_TRUE(has_parts(errors.str(), {"gemm_tuning.json", "another instruction set: another cpu"}));
}

}  // namespace
}  // namespace weft::train
