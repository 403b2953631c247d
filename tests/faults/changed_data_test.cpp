// If data is truncated while a run reads it, the run ends with a fault that names the file.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"

namespace weft {
namespace {

constexpr std::size_t kBytes = 200'000;

class TruncatedData : public ::testing::TestWithParam<const char*> {
 protected:
  TruncatedData() {
    const bool ids = std::string_view(GetParam()).ends_with(".bin");
    for (std::size_t i = 0; i < kBytes; ++i) {
      content_ += ids && i % 2 == 1 ? '\0' : static_cast<char>('a' + i / 2 % 23);  // 16-bit ids
    }
  }
  std::vector<std::string> endless_training(const std::vector<std::string>& more) const {
    return testing::tiny_training(run_dir_, testing::joined(more, {"--steps", "100000000"}));
  }
  /// Truncates the file while the run reads it.
  static void expect_fault(testing::ChildProcess& child, const std::string& run_dir, const std::string& file) {
    ASSERT_TRUE(testing::trains(child, run_dir)) << child.errors();
    std::filesystem::resize_file(file, 10);
    const testing::Ending ending = child.wait();
    EXPECT_EQ(ending.exit_code, 3) << "signal " << ending.signal << ", " << child.errors();
    EXPECT_TRUE(has_parts(child.errors(), {"weft: error: ", "'" + file + "' was truncated", "it has 10 bytes",
                                           "had " + std::to_string(kBytes)}));
  }

  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
  std::string content_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TruncatedData, ::testing::Values("ids.bin", "text.txt"),
                         [](const auto& info) { return std::string(info.param).substr(0, 3); });

TEST_P(TruncatedData, EndsTheRunAndIsNamed) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string data = folder_.write(GetParam(), content_);
    testing::ChildProcess child(endless_training({"--data", data, "--ranks", ranks}));
    expect_fault(child, run_dir_, data);
    std::filesystem::remove_all(run_dir_);
  }
}

// The training thread reads the data of evaluations.
TEST_P(TruncatedData, OfAnEvaluationEndsTheRunAndIsNamed) {
  const std::string data = folder_.write(GetParam(), content_);
  const std::string held_out = folder_.write(std::string("held-out-") + GetParam(), content_);
  testing::ChildProcess child(endless_training({"--data", data, "--val-data", held_out, "--eval-every", "1"}));
  expect_fault(child, run_dir_, held_out);
}

TEST_P(TruncatedData, OfAJobOfMpirunEndsItAndIsNamed) {
  const std::string data = folder_.write(GetParam(), content_);
  testing::ChildProcess child(testing::under_mpirun(2, endless_training({"--data", data})));
  expect_fault(child, run_dir_, data);
}

}  // namespace
}  // namespace weft
