// Groups and workspaces of collectives.
#include "graph/operation.h"

#include <gtest/gtest.h>

namespace weft::graph {
namespace {

TEST(Operation, CollectivesKnowTheirChannel) {
  const Operation reduce = AllReduce{Channel::z_scatter, 4, 10};
  ASSERT_TRUE(is_collective(reduce));
  EXPECT_EQ(*channel_of(reduce), Channel::z_scatter);
  EXPECT_FALSE(is_collective(Gemm{1, 1, 1}));
}

TEST(Operation, AllReduceWorkspaceHoldsASliceOfEveryPeer) {
  EXPECT_EQ(all_reduce_workspace(100, 1), 0);
  EXPECT_EQ(all_reduce_workspace(100, 4), 75);
  EXPECT_EQ(all_reduce_workspace(101, 4), 78);
  EXPECT_EQ(all_reduce_workspace(1, 3), 2);
}

}  // namespace
}  // namespace weft::graph
