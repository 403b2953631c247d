// SIGTERM and SIGINT end a run after it has saved its work; a second signal ends it immediately.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

class StopSignal : public ::testing::TestWithParam<int> {
 protected:
  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

INSTANTIATE_TEST_SUITE_P(Both, StopSignal, ::testing::Values(SIGTERM, SIGINT),
                         [](const auto& info) { return info.param == SIGTERM ? "SIGTERM" : "SIGINT"; });

TEST_P(StopSignal, SavesAndLeaves) {
  for (const std::string save_every : {"0", "1"}) {
    testing::ChildProcess child(testing::tiny_training(run_dir_, {"--steps", "100000000", "--save-every", save_every}));
    ASSERT_TRUE(testing::trains(child, run_dir_)) << child.errors();
    child.send(GetParam());
    ASSERT_EQ(child.wait().exit_code, 0) << child.errors();
    EXPECT_TRUE(has_parts(child.output(), {"by a signal after step " + std::to_string(testing::loaded_step(run_dir_)),
                                           "weft train " + run_dir_ + "/config.toml --resume auto"}));
    std::filesystem::remove_all(run_dir_);
  }
}

// The held-out data of the first evaluation take minutes, and a batch of it takes long.
TEST_P(StopSignal, TwiceEndsWithoutSaving) {
  const std::string words = "a loom of yarn, warp and weft\n";
  std::string text;
  for (int i = 0; i < (1 << 16); ++i) text += words;
  folder_.write("text", text);
  testing::ChildProcess child({WEFT_EXECUTABLE, "train", "--model", "small", "--data", folder_.path("text").string(),
                               "--global-batch", "64", "--threads", "1", "--eval-sequences", "0", "--run-dir",
                               run_dir_});
  ASSERT_TRUE(
      testing::wait_until([&] { return std::filesystem::exists(folder_.path("run/graph.svg")) || !child.running(); }));
  child.send(GetParam());
  EXPECT_TRUE(testing::wait_until([&] { return has_parts(child.errors(), {"a second signal ends at once"}); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(70));
  child.send(GetParam());
  const auto sent = std::chrono::steady_clock::now();
  EXPECT_EQ(child.wait().signal, GetParam());
  EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(1));
  EXPECT_TRUE(train::complete_checkpoints(run_dir_).empty());
}

TEST_P(StopSignal, OfAllRanksAtOnceSavesOnce) {
  testing::ChildProcess child(testing::tiny_training(run_dir_, {"--steps", "100000000", "--ranks", "2"}));
  ASSERT_TRUE(testing::trains(child, run_dir_)) << child.errors();
  child.send(GetParam());
  ASSERT_EQ(child.wait().exit_code, 0) << child.errors();
  EXPECT_EQ(train::complete_checkpoints(run_dir_).size(), 1U);
}

// Held-out tokens that take minutes to evaluate.
class LongEvaluation : public ::testing::Test {
 protected:
  LongEvaluation() {
    std::string text;
    while (text.size() < (std::size_t{64} << 20))
      text += "a loom of yarn, warp and weft, a loom of yarn, warp and weft\n";
    folder_.write("held-out", text);
  }
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    return testing::tiny_training(
        run_dir_, testing::joined({"--val-data", folder_.path("held-out").string(), "--eval-sequences", "0", "--steps",
                                   "100000000", "--watchdog", "0"},
                                  more));
  }
  /// The drawing is the last file written before the first evaluation.
  bool evaluates(testing::ChildProcess& child) const {
    return testing::wait_until(
               [&] { return std::filesystem::exists(folder_.path("run/graph.svg")) || !child.running(); }) &&
           child.running();
  }
  void expect_one_step_without_a_held_out_loss() const {
    EXPECT_EQ(testing::loaded_step(run_dir_), 1);
    const std::string metrics = testing::TemporaryFolder::read(folder_.path("run/metrics.jsonl"));
    EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 1);
    EXPECT_EQ(metrics.find("val_loss"), std::string::npos) << metrics;
  }
  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

TEST_F(LongEvaluation, IsCutShortByASignal) {
  for (const std::string ranks : {"1", "2"}) {
    testing::ChildProcess child(training({"--ranks", ranks}));
    ASSERT_TRUE(evaluates(child)) << child.errors();
    child.send(SIGTERM);
    ASSERT_EQ(child.wait(std::chrono::seconds(30)).exit_code, 0) << child.errors();
    EXPECT_TRUE(has_parts(child.output(), {"by a signal after step 1 of 100000000"}));
    expect_one_step_without_a_held_out_loss();
    std::filesystem::remove_all(run_dir_);
  }
}

// One process receives the signal; the other learns of it from the sums of the batch.
TEST_F(LongEvaluation, IsCutShortOnAllProcesses) {
  for (const std::string listener : {"0", "1"}) {
    testing::ChildProcess job(testing::under_mpirun(2, training({})));
    ASSERT_TRUE(evaluates(job)) << job.errors();
    const auto rank = job.descendant("OMPI_COMM_WORLD_RANK=" + listener);
    ASSERT_TRUE(rank.has_value());
    ASSERT_EQ(::kill(*rank, SIGTERM), 0);
    ASSERT_EQ(job.wait(std::chrono::seconds(30)).exit_code, 0) << job.errors();
    expect_one_step_without_a_held_out_loss();
    std::filesystem::remove_all(run_dir_);
  }
}

TEST_F(LongEvaluation, IsCutShortByTheTimeLimit) {
  testing::ChildProcess child(training({"--max-time", "0.5", "--ranks", "2"}));
  ASSERT_EQ(child.wait(std::chrono::seconds(30)).exit_code, 0) << child.errors();
  EXPECT_TRUE(has_parts(child.output(), {"by --max-time after step 1 of 100000000"}));
  expect_one_step_without_a_held_out_loss();
}

/// Whether a process has a handler for SIGTERM.
bool catches_sigterm(pid_t id) {
  const std::string status = testing::TemporaryFolder::read("/proc/" + std::to_string(id) + "/status");
  const std::size_t at = status.find("SigCgt:");
  return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGTERM - 1) & 1U) != 0;
}

TEST_F(LongEvaluation, OfACheckpointEndsWithoutALoss) {
  testing::ChildProcess run(testing::tiny_training(run_dir_, {"--steps", "1"}));
  ASSERT_EQ(run.wait().exit_code, 0) << run.errors();
  testing::ChildProcess child({WEFT_EXECUTABLE, "eval", run_dir_, "--val-data", folder_.path("held-out").string(),
                               "--eval-sequences", "0", "--ranks", "2"});
  ASSERT_TRUE(testing::wait_until([&] { return catches_sigterm(child.id()) || !child.running(); }));
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(std::chrono::seconds(30)).exit_code, 3);
  EXPECT_TRUE(has_parts(child.errors(), {"stopped by a signal after ", " batches"}));
  EXPECT_EQ(child.output(), "");
}

}  // namespace
}  // namespace weft
