// A run is killed at any time, goes on and is killed again. In the end its files are bit by bit those of a run that
// nobody stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/files/checksum.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Kind {
  const char* name;
  std::vector<std::string> flags;
  int processes = 1;
  bool adapters = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"Adapters", {"--lora", "rank=2", "--dropout", "0.1"}, 1, true},
      {"Pipelines", {"--grid", "pipe=2", "--model.layers", "2", "--micro-batch", "1", "--policy", "1f1b"}},
      {"Best", {"--keep-best", "true", "--lr", "0.1", "--grid", "z=2"}},
      {"TwoProcesses", {"--grid", "data=2", "--dropout", "0.1"}, 2}};
  return all;
}

/// The files of a run at its end.
struct Left {
  std::vector<std::string> checkpoints;      // by name
  std::map<std::string, std::string> files;  // of the last one: checksums of its tensors
  std::vector<nlohmann::json> steps;         // its metrics without times
  std::int64_t best_step = -1;

  bool operator==(const Left&) const = default;
  friend void PrintTo(const Left& left, std::ostream* out) {
    *out << nlohmann::json(left.checkpoints) << nlohmann::json(left.files) << nlohmann::json(left.steps)
         << left.best_step;
  }
};

Left left_in(const fs::path& run_dir) {
  Left left;
  for (const std::string& name : testing::TemporaryFolder::names(train::checkpoints_of(run_dir))) {
    left.checkpoints.push_back(name);
  }
  for (const auto& file : fs::directory_iterator(train::find_checkpoint(run_dir))) {
    if (file.path().extension() != ".safetensors") continue;
    const std::string content = testing::TemporaryFolder::read(file.path());
    left.files[file.path().filename().string()] = Crc32c().add(std::as_bytes(std::span(content))).text();
  }
  std::istringstream lines(testing::TemporaryFolder::read(run_dir / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json& kept = left.steps.emplace_back();
    const nlohmann::json metrics = nlohmann::json::parse(line);
    for (const char* key : {"step", "loss", "grad_norm", "lr", "val_loss"}) {
      if (metrics.contains(key)) kept[key] = metrics.at(key);
    }
  }
  if (const auto best = train::best_checkpoint(run_dir)) left.best_step = best->folder.step;
  return left;
}

class KilledRuns : public ::testing::TestWithParam<std::tuple<std::size_t, unsigned>> {
 protected:
  static constexpr int kKills = 25;
  static constexpr std::int64_t kSteps = 30;

  const Kind& kind() const { return kinds().at(std::get<0>(GetParam())); }

  std::vector<std::string> command(const std::string& run) const {
    std::vector<std::string> more = {"--steps", std::to_string(kSteps), "--resume", "auto",        "--save-every",
                                     "2",       "--eval-every",         "3",        "--keep-last", "1"};
    if (kind().adapters) more.insert(more.end(), {"--init-from", folder_.path("base").string()});
    std::vector<std::string> words =
        testing::joined(testing::tiny_training(folder_.path(run).string(), more), kind().flags);
    return kind().processes > 1 ? testing::under_mpirun(kind().processes, words) : words;
  }

  void SetUp() override {
    if (kind().adapters) {
      testing::ChildProcess base(testing::tiny_training(folder_.path("base").string(), {"--steps", "1"}));
      ASSERT_EQ(base.wait().exit_code, 0) << base.errors();
    }
    const auto begin = Clock::now();
    run_to_its_end("whole");
    if (HasFatalFailure()) return;
    whole_run_ = Clock::now() - begin;
    expected_ = left_in(folder_.path("whole"));
    ASSERT_EQ(std::ssize(expected_.steps), kSteps);
    ASSERT_FALSE(expected_.files.empty());
  }

  void run_to_its_end(const std::string& run) const {
    testing::ChildProcess child(command(run));
    ASSERT_EQ(child.wait().exit_code, 0) << child.errors();
  }

  /// Kills a process of a run at some time. Returns whether the run ended before.
  bool ends_before_a_kill(const std::string& run) {
    testing::ChildProcess child(command(run));
    const std::string rank =
        "OMPI_COMM_WORLD_RANK=" + std::to_string(std::uniform_int_distribution<int>(0, kind().processes - 1)(random_));
    if (kind().processes > 1) {
      testing::wait_until([&] { return child.descendant(rank).has_value() || !child.running(); });
    }
    const double share = std::uniform_real_distribution<double>(0, 0.9)(random_);
    std::this_thread::sleep_for(std::chrono::duration<double>(share * whole_run_));
    if (kind().processes > 1) {
      if (const auto process = child.descendant(rank)) ::kill(*process, SIGKILL);
    } else {
      child.send(SIGKILL);
    }
    const testing::Ending ending = child.wait();
    EXPECT_TRUE(ending.in_time);
    EXPECT_NE(ending.exit_code, 2) << child.errors();
    return ending.exit_code == 0;
  }

  const testing::TemporaryFolder folder_;
  std::mt19937 random_{std::get<1>(GetParam())};
  std::chrono::duration<double> whole_run_{};
  Left expected_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, KilledRuns,
                         ::testing::Combine(::testing::Range<std::size_t>(0, 4), ::testing::Values(1U, 2U)),
                         [](const auto& info) {
                           return std::string(kinds().at(std::get<0>(info.param)).name) + "Seed" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(KilledRuns, LeaveWhatAWholeRunLeaves) {
  int kills = 0;
  for (int number = 0; kills < kKills; ++number) {
    const std::string run = "run" + std::to_string(number);
    while (kills < kKills && !ends_before_a_kill(run)) ++kills;
    if (kills == kKills) run_to_its_end(run);
    if (HasFailure()) return;
    EXPECT_EQ(left_in(folder_.path(run)), expected_) << run << " after " << kills << " kills";
  }
  RecordProperty("kills", kills);
}

}  // namespace
}  // namespace weft
