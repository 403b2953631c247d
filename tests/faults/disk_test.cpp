// Disks that are full, become full or aren't writable: the error names them, and nothing half-written is left.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_root() {
  return ::geteuid() == 0;
}

/// A file system of exactly this size, mounted on the folder.
class SmallDisk {
 public:
  SmallDisk(fs::path folder, std::uint64_t bytes) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
    const std::string options = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path folder_;
  bool mounted_ = false;
};

std::set<std::string> names(const fs::path& folder) {
  return testing::TemporaryFolder::names(folder);
}

/// The size in bytes of the largest file in a folder.
std::uint64_t largest_file(const fs::path& folder) {
  std::uint64_t largest = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    largest = std::max(largest, std::uint64_t{file.file_size()});
  }
  return largest;
}

class Disk : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

TEST_F(Disk, TooSmallForTheFirstCheckpointIsRefusedBeforeTraining) {
  const SmallDisk disk(folder_.path("small"), 64 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  for (const std::string ranks : {"1", "2"}) {
    testing::ChildProcess child(
        testing::tiny_training(folder_.path("small/run").string(), {"--steps", "2", "--ranks", ranks}));
    EXPECT_EQ(child.wait().exit_code, 2);
    EXPECT_TRUE(has_parts(child.errors(), {"the first checkpoint needs ", "small/run' has ", " free", "fix: "}));
    EXPECT_EQ(child.output(), "");
    EXPECT_TRUE(fs::is_empty(folder_.path("small")));
  }
}

TEST_F(Disk, ThatBecomesTooSmallEndsTheRunAndKeepsTheLastCheckpoint) {
  const SmallDisk disk(folder_.path("small"), 512 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const std::string run_dir = folder_.path("small/run").string();
  // All checkpoints are kept until there is no room for another one.
  testing::ChildProcess child(
      testing::tiny_training(run_dir, {"--steps", "1000", "--ranks", "2", "--save-every", "1", "--keep-last", "0"}));
  EXPECT_EQ(child.wait().exit_code, 3);
  EXPECT_TRUE(has_parts(child.errors(), {"rank 0: checkpoint '", "can't be written: it needs ", " free"}));
  const auto complete = train::complete_checkpoints(run_dir);
  ASSERT_FALSE(complete.empty());
  EXPECT_EQ(names(train::checkpoints_of(run_dir)).size(), complete.size());
  EXPECT_EQ(testing::loaded_step(run_dir), complete.back().step);
}

TEST_F(Disk, FullWhileWritingLeavesNoDebris) {
  for (const std::string ranks : {"1", "2"}) {
    // A model whose checkpoint contains the largest of the run's files.
    const auto training = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--model.hidden", "64", "--model.ffn", "256", "--ranks", ranks});
      return testing::tiny_training(run_dir_, more);
    };
    testing::ChildProcess good(training({"--steps", "2"}));
    ASSERT_EQ(good.wait().exit_code, 0) << good.errors();
    // One byte too few for the largest file.
    testing::ChildProcess child(training({"--steps", "1000", "--resume", "auto", "--save-every", "2"}),
                                {.file_bytes = largest_file(train::find_checkpoint(run_dir_)) - 1, .as_nobody = false});
    EXPECT_EQ(child.wait().exit_code, 3);
    EXPECT_TRUE(has_parts(child.errors(), {"optimizer.safetensors' can't be written", "ulimit -f"}));
    EXPECT_EQ(names(train::checkpoints_of(run_dir_)).size(), 1U);
    EXPECT_EQ(testing::loaded_step(run_dir_), 2);
    fs::remove_all(run_dir_);
  }
}

// The model is so large that the files by which MPI's processes share memory are smaller than its checkpoint.
TEST_F(Disk, FullWhileProcessesWriteLeavesNoDebris) {
  const auto training = [&](const std::vector<std::string>& more) {
    return testing::tiny_training(run_dir_, testing::joined({"--model.layers", "4", "--model.hidden", "256",
                                                             "--model.ffn", "1024", "--grid", "data=2"},
                                                            more));
  };
  testing::ChildProcess good(training({"--steps", "1"}));
  ASSERT_EQ(good.wait().exit_code, 0) << good.errors();
  const std::uint64_t largest = largest_file(train::find_checkpoint(run_dir_));
  ASSERT_GT(largest, std::uint64_t{16} << 20);
  testing::ChildProcess child(
      testing::under_mpirun(2, training({"--steps", "1000", "--resume", "auto", "--save-every", "2"})),
      {.file_bytes = largest - 1, .as_nobody = false});
  EXPECT_EQ(child.wait().exit_code, 3) << child.errors();
  EXPECT_TRUE(has_parts(child.errors(), {"optimizer.safetensors' can't be written", "ulimit -f"}));
  EXPECT_EQ(names(train::checkpoints_of(run_dir_)).size(), 1U);
  EXPECT_EQ(train::complete_checkpoints(run_dir_).back().step, 1);
}

TEST_F(Disk, ARunFolderThatCannotBeMadeIsRefusedBeforeTraining) {
  folder_.write("file", "");
  testing::ChildProcess child(testing::tiny_training(folder_.path("file/run").string(), {"--steps", "2"}));
  EXPECT_EQ(child.wait().exit_code, 2);
  EXPECT_TRUE(has_parts(child.errors(), {"file/run", "Not a directory", "fix: --run-dir"}));
  EXPECT_EQ(child.output(), "");
}

TEST_F(Disk, AReadOnlyRunFolderIsRefusedBeforeTraining) {
  fs::create_directories(run_dir_);
  fs::permissions(run_dir_,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  fs::permissions(folder_.path(), fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  testing::ChildProcess child(testing::tiny_training(run_dir_, {"--steps", "2"}),
                              {.file_bytes = {}, .as_nobody = is_root()});
  const testing::Ending ending = child.wait();
  if (ending.exit_code == 127) GTEST_SKIP() << "another user can't run " << WEFT_EXECUTABLE;
  EXPECT_EQ(ending.exit_code, 2);
  EXPECT_TRUE(has_parts(child.errors(), {"run", "Permission denied", "fix: --run-dir"}));
  EXPECT_TRUE(fs::is_empty(run_dir_));
}

TEST_F(Disk, FullWhileExportingLeavesNothing) {
  testing::ChildProcess run(
      testing::tiny_training(run_dir_, {"--steps", "1", "--model.hidden", "64", "--model.ffn", "256"}));
  ASSERT_EQ(run.wait().exit_code, 0) << run.errors();
  folder_.write("there/tokenizer.json", "mine");
  for (const std::string format : {"hf", "chakra"}) {
    const auto exporting = [&](const std::string& output) {
      return std::vector<std::string>{WEFT_EXECUTABLE, "export", run_dir_, "--format", format, "-o", output};
    };
    testing::ChildProcess good(exporting(folder_.path("good-" + format).string()));
    ASSERT_EQ(good.wait().exit_code, 0) << good.errors();
    const std::uint64_t largest = largest_file(folder_.path("good-" + format));
    const std::set<std::string> before = names(folder_.path());
    for (const char* output : {"new", "above/new/", "there"}) {
      if (format == "chakra" && output == std::string("there")) continue;  // accepts no folder that contains files
      testing::ChildProcess child(exporting(folder_.path(output).string()),
                                  {.file_bytes = largest - 1, .as_nobody = false});
      EXPECT_EQ(child.wait().exit_code, 3);
      EXPECT_TRUE(has_parts(child.errors(), {"can't be written", "ulimit -f"}));
      EXPECT_EQ(names(folder_.path()), before) << output;
    }
    EXPECT_EQ(names(folder_.path("there")), std::set<std::string>{"tokenizer.json"});
  }
  // With enough room, the model is written beside the existing files.
  testing::ChildProcess child({WEFT_EXECUTABLE, "export", run_dir_, "-o", folder_.path("there").string()});
  EXPECT_EQ(child.wait().exit_code, 0) << child.errors();
  EXPECT_EQ(names(folder_.path("there")),
            (std::set<std::string>{"config.json", "model.safetensors", "tokenizer.json"}));
}

}  // namespace
}  // namespace weft
