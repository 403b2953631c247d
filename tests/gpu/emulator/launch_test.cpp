// `weft train` without mpirun: its ranks take a GPU each where there are enough, and share the first one elsewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"
#include "tests/gpu/emulator/gpu.h"

namespace weft::emulator {
namespace {

using nlohmann::json;

class Launch : public ::testing::Test {
 protected:
  struct Result {
    int exit_code;
    std::string output, errors;

    json report() const { return json::parse(output.substr(output.rfind("\n{") + 1)); }
  };

  Result train(const std::string& run_dir, const std::vector<std::string>& more) const {
    std::vector<std::string> words =
        testing::tiny_training((folder_.path() / run_dir).string(), {"--device", "cuda", "--steps", "2", "--json"});
    words[0] = (std::filesystem::path(WEFT_PROGRAMS) / "emulated_weft").string();
    words.insert(words.end(), more.begin(), more.end());
    testing::ChildProcess child(words);
    const testing::Ending ending = child.wait();
    return {ending.exit_code, child.output(), child.errors()};
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Launch, RanksTakeAGpuEach) {
  const Result each = train("each", {"--ranks", "4", "--global-batch", "4"}),
               shared = train("shared", {"--ranks", "4", "--global-batch", "4", "--communicator", "local"});
  ASSERT_EQ(each.exit_code, 0) << each.errors;
  ASSERT_EQ(shared.exit_code, 0) << shared.errors;
  EXPECT_EQ(each.report().at("communicator"), "nccl");
  EXPECT_EQ(each.report().at("devices").size(), 4U);
  EXPECT_EQ(shared.report().at("communicator"), "local");
  EXPECT_EQ(shared.report().at("devices").size(), 1U);
  const double loss = shared.report().at("last_loss").get<double>();
  EXPECT_NEAR(each.report().at("last_loss").get<double>(), loss, 1e-5 * loss);
}

TEST_F(Launch, MoreRanksThanGpusShareTheFirst) {
  const std::string gpus = std::to_string(kDevices), ranks = std::to_string(kDevices + 1);
  const Result shared = train("shared", {"--ranks", ranks, "--global-batch", ranks});
  ASSERT_EQ(shared.exit_code, 0) << shared.errors;
  EXPECT_EQ(shared.report().at("communicator"), "local");
  EXPECT_EQ(shared.report().at("devices").size(), 1U);
  const Result refused = train("refused", {"--ranks", ranks, "--global-batch", ranks, "--communicator", "nccl"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(testing::has_parts(refused.errors, {ranks + " ranks and " + gpus + " GPUs", "--ranks " + gpus}))
      << refused.errors;
}

}  // namespace
}  // namespace weft::emulator
