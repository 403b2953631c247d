// A run folder belongs to one run: it is claimed, used and released.
#include "train/run/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/run_files.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& folder, bool may_hold_run = false) {
  return testing::message_of<UserError>([&] { const RunFolder claimed(folder, false, may_hold_run); });
}

TEST(RunFolder, LeavesNothingOfARunThatNeverBegan) {
  const testing::TemporaryFolder folder;
  {
    const RunFolder run(folder.path("runs/mine"), false, false);
    EXPECT_TRUE(fs::is_directory(folder.path("runs/mine")));
  }
  EXPECT_FALSE(fs::exists(folder.path("runs")));
}

TEST(RunFolder, IsLockedAsLongAsItLives) {
  const testing::TemporaryFolder folder;
  {
    const RunFolder run(folder.path("run"), false, false);
    folder.write("run/metrics.jsonl", "");
    for (const bool may_hold_run : {false, true}) {
      EXPECT_TRUE(has_parts(refusal(folder.path("run"), may_hold_run),
                            {"run' is in use by process " + std::to_string(::getpid()), "fix: --run-dir"}));
    }
  }
  EXPECT_EQ(refusal(folder.path("run"), true), "");
  EXPECT_FALSE(fs::exists(folder.path("run/.lock")));
}

TEST(RunFolder, ALockFileThatWasLeftMeansNothing) {
  const testing::TemporaryFolder folder;
  folder.write("run/.lock", "1\n");
  EXPECT_EQ(refusal(folder.path("run")), "");
}

TEST(RunFolder, ALockThatIsALinkIsReplacedAndItsTargetUntouched) {
  const testing::TemporaryFolder folder;
  folder.write("precious.txt", "precious");
  for (const bool hard : {false, true}) {
    folder.write("run/metrics.jsonl", "");
    const fs::path lock = folder.path("run/.lock");
    if (hard) {
      fs::create_hard_link(folder.path("precious.txt"), lock);
    } else {
      fs::create_symlink("../precious.txt", lock);
    }
    EXPECT_EQ(refusal(folder.path("run"), true), "");
    EXPECT_EQ(testing::TemporaryFolder::read(folder.path("precious.txt")), "precious");
  }
}

// As in an unpacked archive, or by another user of a shared folder.
TEST(RunFolder, FoldersThatAreLinksAreRefusedAndTheirTargetsUntouched) {
  for (const std::string_view name : {"checkpoints", "tensorboard"}) {
    const testing::TemporaryFolder folder;
    folder.write("elsewhere/step_00000001/manifest.json", "{}");
    folder.write("elsewhere/.writing_step_00000002/part", "mine");
    folder.write("run/metrics.jsonl", "");
    fs::create_directory_symlink("../elsewhere", folder.path("run") / name);
    const std::string message = refusal(folder.path("run"), true);
    EXPECT_TRUE(has_parts(message, {(folder.path("run") / name).string(), "is a link", "fix: "})) << message;
    EXPECT_TRUE(fs::exists(folder.path("elsewhere/step_00000001/manifest.json")));
    EXPECT_TRUE(fs::exists(folder.path("elsewhere/.writing_step_00000002/part")));
    EXPECT_FALSE(fs::exists(folder.path("run/.lock")));
  }
  // A run folder that is itself a link is where a person wants it.
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path("there"));
  fs::create_directory_symlink("there", folder.path("run"));
  EXPECT_EQ(refusal(folder.path("run")), "");
}

TEST(RunFolder, OneThatHoldsARunIsRefused) {
  for (const std::string_view file : {kRunConfigFile, kMetricsFile, kTraceFile}) {
    const testing::TemporaryFolder folder;
    folder.write(file, "mine");
    EXPECT_TRUE(has_parts(refusal(folder.path()), {"holds a run", "--resume auto", "--overwrite", "--run-dir"}));
    EXPECT_EQ(refusal(folder.path(), true), "");
    EXPECT_EQ(testing::TemporaryFolder::read(folder.path(file)), "mine");
  }
  const testing::TemporaryFolder folder;
  folder.write("notes.txt", "");
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(RunFolder, ProposedNamesAreNewOnes) {
  const testing::TemporaryFolder folder;
  const RunFolder first(folder.path("runs/a"), true, false);
  const RunFolder second(folder.path("runs/a"), true, false);
  const RunFolder third(folder.path("runs/a"), true, false);
  EXPECT_EQ(first.path(), folder.path("runs/a"));
  EXPECT_EQ(second.path(), folder.path("runs/a-2"));
  EXPECT_EQ(third.path(), folder.path("runs/a-3"));
}

/// The exit code of two ranks that claim the folder of `config`, each of which sees its name.
int claim(RunConfig config, const RunFolderOptions& options = {}) {
  return testing::end_of_ranks(2,
                               [&](comm::World& world) {
                                 RunConfig own = config;
                                 if (world.rank() == 1) own.run_dir = "elsewhere";
                                 const auto folder = claim_run_folder(world, own, options);
                                 EXPECT_EQ(folder != nullptr, world.rank() == 0);
                                 EXPECT_EQ(own.run_dir, config.run_dir);
                                 world.barrier();
                               })
      .code;
}

TEST(RunFolder, IsForItsOwnRunsCheckpointsAlone) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
  config.steps = 1;
  testing::train_run(config);
  RunConfig other = config;
  other.run_dir = folder.path("other").string();
  EXPECT_EQ(claim(other), 0);
  testing::train_run(other);

  EXPECT_EQ(claim(config), 2);
  EXPECT_EQ(claim(config, {.overwrite = true}), 0);
  config.resume = "auto";
  EXPECT_EQ(claim(config), 0);
  EXPECT_EQ(claim(config, {.overwrite = true}), 2);
  config.resume = config.run_dir + "/";
  EXPECT_EQ(claim(config), 0);
  config.resume = checkpoint_path(config.run_dir, 1).string();
  EXPECT_EQ(claim(config), 0);
  config.resume = other.run_dir;
  EXPECT_EQ(claim(config), 2);
  config.run_dir = folder.path("third").string();
  EXPECT_EQ(claim(config), 0);
  config.resume = folder.path("missing").string();
  EXPECT_EQ(claim(config), 2);
}

}  // namespace
}  // namespace weft::train
