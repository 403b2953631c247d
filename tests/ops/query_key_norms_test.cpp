// How norms of queries and keys become tasks. (Their numbers on every grid: tests/train/grid_test.cpp.)
#include "ops/query_key_norms.h"

#include <gtest/gtest.h>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

class QueryKeyNormTasks : public ::testing::Test {
 protected:
  std::shared_ptr<const graph::Graph> lower(testing::ModelKind kind, const graph::Grid& grid) const {
    StepConfig step = testing::tiny_step();
    step.grid = grid;
    return lower_train(testing::tiny_model(kind), step);
  }
};

TEST_F(QueryKeyNormTasks, OfHeadsNeedNoOtherRank) {
  const auto graph = lower(testing::ModelKind::qwen3, {.x = 2, .y = 2});
  EXPECT_EQ(testing::operation<graph::HeadNormForward>(*graph, "mb0.L0.attn.fwd.q_norm").heads, 1);
  EXPECT_TRUE(testing::tasks_with(*graph, "q_norm_all").empty());
}

TEST_F(QueryKeyNormTasks, OfColumnsAreOneNormOfARow) {
  const auto graph = lower(testing::ModelKind::olmo2, {});
  EXPECT_EQ(testing::operation<graph::RmsNormForward>(*graph, "mb0.L1.attn.fwd.q_norm").cols, 16);
  EXPECT_EQ(testing::operation<graph::RmsNormForward>(*graph, "mb0.L1.attn.fwd.k_norm").cols, 8);
  EXPECT_TRUE(testing::operation<graph::RmsNormBackward>(*graph, "mb1.L1.attn.bwd.k_norm_dx").accumulate);
}

// Four heads of four columns and two key heads: of x = 4 ranks, two have the same key head.
TEST_F(QueryKeyNormTasks, OfCutColumnsGatherANumberARow) {
  const auto graph = lower(testing::ModelKind::olmo2, {.x = 4});
  const auto& q = testing::operation<graph::NormForwardOfParts>(*graph, "mb0.L0.attn.fwd.q_norm");
  EXPECT_EQ(std::pair(q.cols, q.parts), std::pair(std::int64_t{4}, std::int64_t{4}));
  EXPECT_EQ(testing::operation<graph::AllGather>(*graph, "mb0.L0.attn.fwd.q_norm_all_gather_x").count, 8);
  EXPECT_EQ(testing::operation<graph::AllReduce>(*graph, "mb0.L0.attn.bwd.k_norm_dx_all_reduce_x").count, 8);
  const auto& taken = testing::operation<graph::TakeColumns>(*graph, "mb0.L0.attn.fwd.take_k_norm");
  EXPECT_EQ(std::pair(taken.windows, taken.ranks_per_window), std::pair(std::int64_t{2}, std::int64_t{2}));
  EXPECT_FALSE(testing::operation<graph::PutColumns>(*graph, "mb0.L0.attn.bwd.put_k_norm").accumulate);
  EXPECT_TRUE(testing::operation<graph::PutColumns>(*graph, "mb1.L0.attn.bwd.put_k_norm").accumulate);
}

TEST_F(QueryKeyNormTasks, ByOnePlusWeightAddOneFirst) {
  const auto graph = lower(testing::ModelKind::gemma3_text, {});
  EXPECT_EQ(testing::operation<graph::AddConstant>(*graph, "mb0.L0.attn.fwd.q_norm_one_plus").value, 1.0F);
  EXPECT_EQ(testing::tensor_of(*graph, "mb0.L0.attn.fwd.q_norm", 1), "mb0.L0.attn.fwd.q_norm.one_plus");
  EXPECT_EQ(testing::tensor_of(*graph, "mb0.L0.attn.bwd.q_norm_dx", 5), "L0.attn.q_norm.weight.grad");
}

}  // namespace
}  // namespace weft::ops
