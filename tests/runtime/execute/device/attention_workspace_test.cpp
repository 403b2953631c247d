// The estimate of cuDNN's workspace; tests/tools/cmd_memory_test.cpp has those of plans.
#include "runtime/execute/device/attention_workspace.h"

#include <gtest/gtest.h>

#include "graph/operation.h"

namespace weft::execute {
namespace {

TEST(AttentionWorkspace, OfCudnnIsTheGradientOfAllScores) {
  EXPECT_EQ(cudnn_backward_workspace({1, 32'768, 32, 32, 128}), 256 + 2 * 32 * (std::int64_t{1} << 30));
  // Rows are padded to 64 and columns to 128.
  EXPECT_EQ(cudnn_backward_workspace({3, 130, 5, 5, 64}), 256 + 2 * 15 * 192 * 256);
  EXPECT_EQ(cudnn_backward_workspace({1, 256, 4, 2, 64}), 256 + 2 * 4 * 256 * 256 + 2 * 2 * 4 * 256 * 64);
}

}  // namespace
}  // namespace weft::execute
