// Ranks started with different configurations or builds are refused before the first step, by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/child_process.h"
#include "tests/train/temporary_folder.h"

namespace weft {
namespace {

/// One rank of each command.
std::vector<std::string> two_programs(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  std::vector<std::string> words = under_mpirun(1, first);
  words.insert(words.end(), {":", "-np", "1"});
  words.insert(words.end(), second.begin(), second.end());
  return words;
}

class DifferingRanks : public ::testing::Test {
 protected:
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"--steps", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return tiny_training(folder_.path("run").string(), all);
  }
  void expect_refused(const std::vector<std::string>& command, std::initializer_list<std::string_view> parts) const {
    ChildProcess job(command);
    EXPECT_EQ(job.wait().exit_code, 2);
    EXPECT_TRUE(has_parts(job.errors(), parts));
    EXPECT_EQ(job.output(), "");
    EXPECT_FALSE(std::filesystem::exists(folder_.path("run")));
  }
  const TemporaryFolder folder_;
};

TEST_F(DifferingRanks, ByANumber) {
  expect_refused(two_programs(training({"--lr", "1e-3"}), training({"--lr", "2e-3"})),
                 {"weft: error: rank 1 was started with lr = 0.002, rank 0 with lr = 0.001", "fix: "});
}

TEST_F(DifferingRanks, BySomethingThatOneOfThemCannotResolve) {
  expect_refused(two_programs(training({}), training({"--global-batch", "3"})),
                 {"weft: error: rank 1 was started with global-batch = 3, rank 0 with global-batch = 2"});
}

TEST_F(DifferingRanks, ByTheModel) {
  expect_refused(two_programs(training({}), training({"--model.hidden", "32"})),
                 {"rank 1 was started with model.hidden = 32, rank 0 with model.hidden = 16"});
}

TEST_F(DifferingRanks, ByTheBuild) {
  // A copy of the program with another build id: the note's header, its name, and then the id.
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  std::string program = TemporaryFolder::read(WEFT_EXECUTABLE);
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
  ChildProcess job(two_programs(training({"--threads", "1"}), training({"--threads", "2"})));
  EXPECT_EQ(job.wait().exit_code, 0) << job.errors();
}

}  // namespace
}  // namespace weft
