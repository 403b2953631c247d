// A run doesn't write into a folder that another run uses or has used, however that run ended.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class UsedRunFolder : public ::testing::Test {
 protected:
  testing::Ending train(const std::vector<std::string>& more, std::string* errors = nullptr) const {
    testing::ChildProcess child(testing::tiny_training(run_dir_, more));
    const testing::Ending ending = child.wait();
    if (errors != nullptr) *errors = child.errors();
    return ending;
  }

  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

TEST_F(UsedRunFolder, GoesOnOrIsOverwritten) {
  ASSERT_EQ(train({"--steps", "3"}).exit_code, 0);
  folder_.write("run/mine.txt", "kept");
  ASSERT_EQ(train({"--steps", "4", "--resume", "auto"}).exit_code, 0);
  EXPECT_EQ(testing::loaded_step(run_dir_), 4);
  ASSERT_EQ(train({"--steps", "1", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(testing::loaded_step(run_dir_), 1);
  EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("run/mine.txt")), "kept");
  // The flag isn't part of the configuration: running the run's configuration file again doesn't overwrite the run.
  testing::ChildProcess again({WEFT_EXECUTABLE, "train", run_dir_ + "/config.toml"});
  EXPECT_EQ(again.wait().exit_code, 2);
  EXPECT_EQ(testing::loaded_step(run_dir_), 1);
}

TEST_F(UsedRunFolder, IsOneRunsUntilItsProcessEnds) {
  testing::ChildProcess first(testing::tiny_training(run_dir_, {"--steps", "100000000", "--save-every", "1"}));
  ASSERT_TRUE(testing::wait_until([&] { return !train::complete_checkpoints(run_dir_).empty() || !first.running(); }));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--resume", "auto"}, {"--overwrite"}, {"--steps", "1"}}) {
    std::string errors;
    EXPECT_EQ(train(more, &errors).exit_code, 2);
    EXPECT_TRUE(has_parts(errors, {"is in use by process " + std::to_string(first.id())}));
  }
  first.send(SIGKILL);
  ASSERT_EQ(first.wait().signal, SIGKILL);
  EXPECT_TRUE(fs::exists(folder_.path("run/.lock")));
  const std::int64_t step = testing::loaded_step(run_dir_);
  EXPECT_EQ(train({"--resume", "auto", "--steps", std::to_string(step + 1)}).exit_code, 0);
  EXPECT_EQ(testing::loaded_step(run_dir_), step + 1);
}

// Runs that start in the same second get different folders.
TEST_F(UsedRunFolder, DefaultNamesAreNewOnes) {
  std::vector<std::string> command = testing::tiny_training("", {"--steps", "1"});
  command.erase(command.begin() + 2, command.begin() + 4);  // --run-dir
  std::vector<std::unique_ptr<testing::ChildProcess>> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(std::make_unique<testing::ChildProcess>(
        command, testing::ChildSurroundings{.folder = folder_.path().string()}));
  }
  for (const auto& run : runs) EXPECT_EQ(run->wait().exit_code, 0) << run->errors();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("runs")), {}), 4);
}

}  // namespace
}  // namespace weft
