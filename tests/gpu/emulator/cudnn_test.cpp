// Attention where cuDNN's engines take much memory: they are left out, or the run is refused before its first step.
#include "tests/gpu/emulator/cudnn.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/attention/cudnn_attention.h"
#include "tests/gpu/emulator/gpu.h"
#include "tests/gpu/gpu_run.h"
#include "train/step/device_choice.h"

namespace weft::emulator {
namespace {

constexpr std::int64_t kMoreThanMemory = std::int64_t{5} << 30, kMoreThanAllowed = std::int64_t{64} << 30;
static_assert(kMemoryBytes < kMoreThanMemory && kMoreThanMemory < execute::kAttentionWorkspace);

class AttentionEngines : public ::testing::Test {
 protected:
  void TearDown() override { set_attention_engines({}); }

  // As `weft train` runs it.
  static testing::GridOutcome run(std::int64_t attention_workspace = execute::kAttentionWorkspace) {
    testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, {});
    train::RunConfig config;
    config.device = train::DeviceKind::cuda;
    config.attention_workspace = attention_workspace;
    run.make_executor = train::executor_of(config);
    return testing::run_grid(run);
  }
};

TEST_F(AttentionEngines, OneThatTakesTooMuchGivesWayToOurKernel) {
  const testing::GridOutcome own = run();
  ASSERT_EQ(own.exit_code, 0) << own.errors;
  set_attention_engines({{kMoreThanAllowed}});
  testing::expect_equal(run(), own);
}

TEST_F(AttentionEngines, ARunThatOneDoesntFitIsRefused) {
  const testing::GridOutcome own = run();
  set_attention_engines({{kMoreThanMemory}});
  const testing::GridOutcome refused = run();
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_NE(refused.errors.find("--attention-workspace"), std::string::npos) << refused.errors;
  testing::expect_equal(run(1 << 30), own);
}

TEST_F(AttentionEngines, TheFirstThatIsDeterministicAndFitsIsTaken) {
  const cuda::AttentionLayout layout{1, 128, 2, 2, 64, 384, 384, 384, 128, 128, 384, 384, 384};
  constexpr std::int64_t kSums = 1024;  // bytes of Σ dout·out
  cuda::CudnnHandle handle;
  set_attention_engines({{1024, false}, {8192}, {4096}, {2048}});
  const auto chosen = [&](std::int64_t most_workspace) {
    const auto attention = cuda::CudnnAttention::make(handle, layout, true, most_workspace);
    return attention != nullptr ? attention->workspace_bytes() - kSums : -1;
  };
  EXPECT_EQ(chosen(8192), 8192);
  EXPECT_EQ(chosen(8191), 4096);
  EXPECT_EQ(chosen(2048), 2048);
  EXPECT_EQ(chosen(2047), -1);
  EXPECT_EQ(cuda::CudnnAttention::make(handle, layout, false, 8192), nullptr);
}

}  // namespace
}  // namespace weft::emulator
