// cuDNN's answers about our attention graphs for a Hopper GPU, which it gives without a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "graph/operation.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "runtime/execute/device/device_memory.h"

namespace weft::cuda {
namespace {

struct Engines : ::testing::TestWithParam<AttentionLayout> {
  // cuDNN requires a driver library, although it calls nothing in it: the toolkit's stub is enough.
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    if (dlopen(WEFT_CUDA_STUBS "/libcuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << dlerror();
  }
};

TEST_P(Engines, CausalBf16AttentionHasDeterministicOnes) {
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "backward" : "forward");
    const EngineCount count = cudnn_engines(GetParam(), backward, h100_properties());
    EXPECT_EQ(count.names.size(), count.engines) << "an engine's number and knobs name it";
    EXPECT_GE(count.deterministic, backward ? 1U : 2U);
    const bool grouped = GetParam().heads != GetParam().kv_heads;
    EXPECT_EQ(count.operations, backward ? grouped ? 23U : 21U : 14U);
  }
}

// Memory is estimated without cuDNN, so the estimate has to be what it says.
TEST_P(Engines, TakeTheWorkspaceThatIsEstimated) {
  for (const std::int64_t seq : {70, 130, 1000, 1024, 8192}) {
    AttentionLayout layout = GetParam();
    layout.seq = seq;
    const graph::AttentionBackward op{layout.batch, layout.seq, layout.heads, layout.kv_heads, layout.head_dim};
    EXPECT_EQ(cudnn_engines(layout, true, h100_properties()).workspace_bytes, execute::cudnn_backward_workspace(op))
        << seq << " tokens";
  }
}

AttentionLayout layout(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  const std::int64_t q = heads * head_dim, kv = kv_heads * head_dim, qkv = q + 2 * kv;
  return {8, 1024, heads, kv_heads, head_dim, qkv, qkv, qkv, q, q, qkv, qkv, qkv};
}

INSTANTIATE_TEST_SUITE_P(Cudnn, Engines,
                         ::testing::Values(layout(12, 12, 64), layout(16, 16, 128), layout(12, 4, 64),
                                           layout(32, 8, 128), layout(5, 5, 128)),
                         [](const auto& info) {
                           return "d" + std::to_string(info.param.head_dim) + "heads" +
                                  std::to_string(info.param.heads) + "of" + std::to_string(info.param.kv_heads);
                         });

}  // namespace
}  // namespace weft::cuda
