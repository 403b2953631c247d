// A NaN ends the run, and no checkpoint contains it. With --check-nan, the error names the task that made the first
// NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/safetensors.h"

namespace weft {
namespace {

class NotANumber : public ::testing::TestWithParam<std::string> {  // ranks
 protected:
  testing::ChildProcess run(const std::vector<std::string>& more) const {
    return testing::ChildProcess(testing::tiny_training(run_dir_, testing::joined(more, {"--ranks", GetParam()})));
  }
  /// Trains one step, then writes an infinity into a weight tensor; its first use gives a NaN.
  std::string poisoned_weights(const std::string& tensor) const {
    testing::ChildProcess good(testing::tiny_training(folder_.path("good").string(), {"--steps", "1"}));
    EXPECT_EQ(good.wait().exit_code, 0) << good.errors();
    const auto path = train::find_checkpoint(folder_.path("good")) / "model.safetensors";
    const train::SafetensorsFile file(path);
    std::string bytes = testing::TemporaryFolder::read(path);
    const float infinity = std::numeric_limits<float>::infinity();
    std::uint64_t header = 0;
    std::copy_n(bytes.data(), sizeof header, reinterpret_cast<char*>(&header));
    const auto place = static_cast<std::ptrdiff_t>(sizeof header + header + file.find(tensor)->begin);
    std::copy_n(reinterpret_cast<const char*>(&infinity), sizeof infinity, bytes.data() + place);
    std::filesystem::create_directories(folder_.path("poisoned"));
    std::filesystem::copy(path.parent_path() / "config.json", folder_.path("poisoned"));
    return std::filesystem::path(folder_.write("poisoned/model.safetensors", bytes)).parent_path().string();
  }

  const testing::TemporaryFolder folder_;
  const std::string run_dir_ = folder_.path("run").string();
};

INSTANTIATE_TEST_SUITE_P(Ranks, NotANumber, ::testing::Values("1", "2"));

TEST_P(NotANumber, InTheLossEndsTheRunAndIsTheLastRecordOfTheLog) {
  testing::ChildProcess child =
      run({"--steps", "5", "--init-from", poisoned_weights("h.0.mlp.c_fc.bias"), "--save-every", "1"});
  ASSERT_EQ(child.wait().exit_code, 3);
  EXPECT_TRUE(has_parts(child.errors(), {"step 0: the loss is ", "nan", "--check-nan"}));
  EXPECT_TRUE(train::complete_checkpoints(run_dir_).empty());
  const std::string log = testing::TemporaryFolder::read(folder_.path("run/log.txt")), errors = child.errors();
  const std::string begin = "weft: error: ";
  ASSERT_TRUE(errors.starts_with(begin) && errors.ends_with("\n")) << errors;
  EXPECT_TRUE(log.ends_with("run         " + errors.substr(begin.size()))) << log;
  const std::string last = log.substr(log.rfind('\n', log.size() - 2) + 1);
  EXPECT_TRUE(has_parts(last, {" error ", GetParam() == "1" ? " -  " : " rank "})) << last;
}

TEST_P(NotANumber, IsNamedByTheTaskThatMadeIt) {
  testing::ChildProcess child =
      run({"--steps", "5", "--init-from", poisoned_weights("h.0.mlp.c_fc.bias"), "--check-nan"});
  EXPECT_EQ(child.wait().exit_code, 3);
  // The first use of the bias is in the evaluation before the first step.
  EXPECT_TRUE(has_parts(
      child.errors(), {"eval, step 0: task 'eval.L0.mlp.up.fwd.gemm'", "wrote a NaN or an infinity to", "at [0, 0]"}));
}

TEST_P(NotANumber, LeavesTheLastGoodCheckpoint) {
  testing::ChildProcess good = run({"--steps", "3"});
  ASSERT_EQ(good.wait().exit_code, 0) << good.errors();
  // A step so large that the next forward pass overflows.
  testing::ChildProcess child =
      run({"--steps", "1000", "--resume", "auto", "--save-every", "1", "--lr", "10", "--warmup", "0", "--schedule",
           "constant", "--clip", "0", "--weight-decay", "10", "--check-nan", "true"});
  EXPECT_EQ(child.wait().exit_code, 3);
  EXPECT_TRUE(has_parts(child.errors(), {"task '", "wrote a NaN"}));
  const auto complete = train::complete_checkpoints(run_dir_);
  ASSERT_FALSE(complete.empty());
  EXPECT_GE(testing::loaded_step(run_dir_), 3);
}

TEST_P(NotANumber, IsNotFoundWhereThereIsNone) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"--dtype", "bf16"},
           {"--dropout", "0.2"},
           {"--recompute", "block"},
           {"--clip", "0"},
           {"--model.family", "llama", "--model.kv-heads", "1", "--model.tied", "false"}}) {
    testing::ChildProcess child =
        run(testing::joined({"--steps", "3", "--check-nan", "true", "--save-every", "1", "--overwrite"}, more));
    EXPECT_EQ(child.wait().exit_code, 0) << child.errors();
  }
}

}  // namespace
}  // namespace weft
