// SIGTERM and SIGINT end a run with its work saved; a second one ends it at once.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "tests/faults/child_process.h"
#include "tests/faults/loaded_checkpoint.h"
#include "tests/train/temporary_folder.h"
#include "train/checkpoint.h"

namespace weft {
namespace {

class StopSignal : public ::testing::TestWithParam<int> {
 protected:
  const TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

INSTANTIATE_TEST_SUITE_P(Both, StopSignal, ::testing::Values(SIGTERM, SIGINT),
                         [](const auto& info) { return info.param == SIGTERM ? "SIGTERM" : "SIGINT"; });

TEST_P(StopSignal, SavesAndLeaves) {
  for (const std::string save_every : {"0", "1"}) {
    ChildProcess child(tiny_training(run_dir_, {"--steps", "100000000", "--save-every", save_every}));
    ASSERT_TRUE(trains(child, run_dir_)) << child.errors();
    child.send(GetParam());
    ASSERT_EQ(child.wait().exit_code, 0) << child.errors();
    EXPECT_TRUE(has_parts(child.output(), {"by a signal behind step " + std::to_string(loaded_step(run_dir_))}));
    std::filesystem::remove_all(run_dir_);
  }
}

TEST_P(StopSignal, OfAllRanksAtOnceSavesOnce) {
  ChildProcess child(tiny_training(run_dir_, {"--steps", "100000000", "--ranks", "2"}));
  ASSERT_TRUE(trains(child, run_dir_)) << child.errors();
  child.send(GetParam());
  ASSERT_EQ(child.wait().exit_code, 0) << child.errors();
  EXPECT_EQ(complete_checkpoints(run_dir_).size(), 1U);
}

}  // namespace
}  // namespace weft
