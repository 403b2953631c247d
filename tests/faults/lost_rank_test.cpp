// If a rank is killed or stopped, the other ranks name the collective in which they wait, and end.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"

namespace weft {
namespace {

class LostRank : public ::testing::Test {
 protected:
  /// Starts two ranks that train endlessly, and waits for their first steps.
  void start(const std::vector<std::string>& mpirun_options = {}) {
    const std::string run_dir = folder_.path("run").string();
    job_ = std::make_unique<testing::ChildProcess>(testing::under_mpirun(
        2, testing::tiny_training(run_dir, {"--steps", "100000000", "--watchdog", "2"}), mpirun_options));
    const bool training = testing::trains(*job_, run_dir);
    const auto second = job_->descendant("OMPI_COMM_WORLD_RANK=1");
    ASSERT_TRUE(training && second) << job_->errors();
    second_ = *second;
  }
  void TearDown() override {
    if (second_ > 0) ::kill(second_, SIGKILL);
  }

  const testing::TemporaryFolder folder_;
  std::unique_ptr<testing::ChildProcess> job_;
  pid_t second_ = 0;
};

TEST_F(LostRank, KilledMakesTheLauncherEndTheOthers) {
  start();
  ::kill(second_, SIGKILL);
  const testing::Ending ending = job_->wait();
  EXPECT_TRUE(ending.in_time);
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_TRUE(
      has_parts(job_->errors(), {"asked the run to stop", "rank 0:", "at collective '", "waits for its peers"}));
}

TEST_F(LostRank, StoppedIsNoticedByTheWatchdog) {
  start();
  ::kill(second_, SIGSTOP);
  EXPECT_EQ(job_->wait().exit_code, 3);
  EXPECT_TRUE(has_parts(job_->errors(), {"rank 0:", "at collective '", "waits for its peers"}));
}

}  // namespace
}  // namespace weft
