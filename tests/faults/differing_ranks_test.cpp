// Ranks started with different configurations or builds are refused before the first step, by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"

namespace weft {
namespace {

// mpirun waits that long, 1 s if it isn't told, before it looks whether the ranks that it ended are gone.
const std::vector<std::string> kWithoutDelay = {"--mca", "odls_base_sigkill_timeout", "0"};

/// One rank for each command.
std::vector<std::string> two_programs(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return testing::joined(testing::joined(testing::under_mpirun(1, first, kWithoutDelay), {":", "-np", "1"}), second);
}

/// Two ranks, each in its own folder, as on two machines without a shared disk.
std::vector<std::string> two_folders(const testing::TemporaryFolder& folder, const std::vector<std::string>& command) {
  const auto first =
      testing::under_mpirun(1, command, testing::joined(kWithoutDelay, {"-wdir", folder.path("0").string()}));
  return testing::joined(testing::joined(first, {":", "-wdir", folder.path("1").string(), "-np", "1"}), command);
}

class DifferingRanks : public ::testing::Test {
 protected:
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    return testing::tiny_training(folder_.path("run").string(), testing::joined({"--steps", "2"}, more));
  }
  void expect_refused(const std::vector<std::string>& command, std::initializer_list<std::string_view> parts,
                      const char* run = "run") const {
    testing::ChildProcess job(command);
    EXPECT_EQ(job.wait().exit_code, 2);
    EXPECT_TRUE(has_parts(job.errors(), parts));
    EXPECT_EQ(job.output(), "");
    EXPECT_FALSE(std::filesystem::exists(folder_.path(run)));
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(DifferingRanks, ByANumber) {
  expect_refused(two_programs(training({"--lr", "1e-3"}), training({"--lr", "2e-3"})),
                 {"weft: error: rank 1 was started with lr = 0.002, rank 0 with lr = 0.001", "fix: "});
}

TEST_F(DifferingRanks, BySomethingThatOneOfThemCannotResolve) {
  expect_refused(two_programs(training({}), training({"--global-batch", "3"})),
                 {"weft: error: rank 1 was started with global-batch = 3, rank 0 with global-batch = 2"});
}

TEST_F(DifferingRanks, ByTheBuild) {
  // A copy of the program with another build id. A note consists of a header, the name and the id.
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  std::string program = testing::TemporaryFolder::read(WEFT_EXECUTABLE);
  const auto at = program.find(note);
  if (at == std::string::npos) GTEST_SKIP() << "the linker gave the program no build id";
  program[at + note.size()] = static_cast<char>(program[at + note.size()] ^ 1);
  const std::string other = folder_.write("weft", program);
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  auto second = training({});
  second.front() = other;
  expect_refused(two_programs(training({}), second),
                 {"weft: error: rank 1 runs a weft with build id = ", ", rank 0 with build id = "});
}

TEST_F(DifferingRanks, ByWhatChangesNoResultTrain) {
  testing::ChildProcess job(two_programs(training({"--threads", "1"}), training({"--threads", "2"})));
  EXPECT_EQ(job.wait().exit_code, 0) << job.errors();
}

// Differences in files that flags refer to, which each rank reads itself.
class DifferingFolders : public DifferingRanks {
 protected:
  DifferingFolders() {
    for (const char* file : {"0/text", "1/text"}) folder_.write(file, kText);
  }
  std::vector<std::string> training_there(const std::vector<std::string>& more) const {
    return two_folders(folder_,
                       testing::tiny_training("run", testing::joined(more, {"--data", "text", "--steps", "2"})));
  }
  void expect_refused_there(const std::vector<std::string>& more, std::initializer_list<std::string_view> parts) const {
    expect_refused(training_there(more), parts, "1/run");
  }
  inline static const std::string kText = [] {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += "warp and weft " + std::to_string(i * i) + "\n";
    return text;
  }();
};

TEST_F(DifferingFolders, WithEqualDataTrain) {
  testing::ChildProcess job(training_there({}));
  EXPECT_EQ(job.wait().exit_code, 0) << job.errors();
}

TEST_F(DifferingFolders, ByTheirData) {
  folder_.write("1/text", kText + kText);
  expect_refused_there({}, {"weft: error: rank 1 has tokens to train on = ", ", rank 0 has tokens to train on = "});
  std::string other = kText;
  other[1000] = 'X';
  folder_.write("1/text", other);
  expect_refused_there({}, {"weft: error: rank 1 has data digest = ", ", rank 0 has data digest = "});
  std::filesystem::remove(folder_.path("1/text"));
  expect_refused_there({}, {"weft: error: rank 1: 'text' doesn't exist"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("0/run")));
}

// Only rank 0 has the checkpoint that it wrote.
TEST_F(DifferingFolders, ByTheirCheckpoints) {
  testing::ChildProcess first(training_there({}));
  ASSERT_EQ(first.wait().exit_code, 0) << first.errors();
  ASSERT_TRUE(std::filesystem::exists(folder_.path("0/run/checkpoints/step_00000002")));
  expect_refused_there({"--resume", "auto"},
                       {"weft: error: rank 1 has checkpoint = none, rank 0 has checkpoint = step_00000002"});
}

// Ranks of x=2 read different halves of the file, so no part of the model is on both ranks.
TEST_F(DifferingFolders, ByTheirWeights) {
  testing::ChildProcess one(testing::tiny_training("run", {"--data", "text", "--steps", "1"}),
                            {.folder = folder_.path("0").string()});
  ASSERT_EQ(one.wait().exit_code, 0) << one.errors();
  std::string weights =
      testing::TemporaryFolder::read(folder_.path("0/run/checkpoints/step_00000001/model.safetensors"));
  const std::string sizes = testing::TemporaryFolder::read(folder_.path("0/run/checkpoints/step_00000001/config.json"));
  std::filesystem::remove_all(folder_.path("0/run"));
  folder_.write("0/config.json", sizes);
  folder_.write("1/config.json", sizes);
  folder_.write("0/model.safetensors", weights);
  weights.back() = static_cast<char>(weights.back() ^ 1);
  folder_.write("1/model.safetensors", weights);
  expect_refused_there({"--init-from", "model.safetensors", "--grid", "x=2"},
                       {"weft: error: rank 1 has digest of weights = ", ", rank 0 has digest of weights = "});
  std::string other_sizes = sizes;
  other_sizes.replace(other_sizes.find("1e-05"), 5, "1e-03");  // layer_norm_epsilon
  folder_.write("1/config.json", other_sizes);
  expect_refused_there({"--init-from", "model.safetensors", "--grid", "x=2"},
                       {"weft: error: rank 1 has model.norm-eps = 0.001, rank 0 has model.norm-eps = 1e-05"});
  std::filesystem::remove(folder_.path("1/config.json"));
  expect_refused_there({"--init-from", "model.safetensors", "--grid", "x=2"}, {"weft: error: rank 1: ", "config.json"});
}

// Checkpoints of the same configuration, trained on different texts.
TEST_F(DifferingFolders, ByTheCheckpointThatTheyEvaluate) {
  folder_.write("1/text", std::string(kText.rbegin(), kText.rend()));
  for (const char* rank : {"0", "1"}) {
    testing::ChildProcess one(testing::tiny_training("run", {"--data", "text", "--steps", "1"}),
                              {.folder = folder_.path(rank).string()});
    ASSERT_EQ(one.wait().exit_code, 0) << one.errors();
  }
  folder_.write("1/text", kText);
  expect_refused(two_folders(folder_, {WEFT_EXECUTABLE, "eval", "run"}),
                 {"weft: error: rank 1 has manifest digest = ", ", rank 0 has manifest digest = "});
}

}  // namespace
}  // namespace weft
