// The tuned products of a run: the rank that reads them, the runs that may tune, and a run's use of its own table.
#include "train/measure/run_gemm_tuning.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/tuning/gemm_tuning_cache.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"

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
  config.resume = (std::filesystem::path(config.run_dir) / "checkpoints" / "step_00000004").string();
  config.run_dir = folder.path("runs/two").string();
  config.steps = 6;
  testing::train_run(config);
  EXPECT_FALSE(std::filesystem::exists(cache.file()));
  EXPECT_EQ(testing::TemporaryFolder::read(std::filesystem::path(config.run_dir) / execute::kGemmTuningFile),
            execute::to_json(of_run));
}

}  // namespace
}  // namespace weft::train
