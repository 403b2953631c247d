// Names, groups and work of operations.
#include "graph/operation.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::graph {
namespace {

TEST(Operation, CollectivesKnowTheirChannel) {
  const Operation reduce = AllReduce{Channel::z_scatter, 4, 10};
  ASSERT_TRUE(is_collective(reduce));
  EXPECT_EQ(*channel_of(reduce), Channel::z_scatter);
  EXPECT_FALSE(is_collective(Gemm{1, 1, 1}));
}

TEST(Operation, WorkOfAGemm) {
  const Work work = work_of(Gemm{2, 3, 5, false, true, true}, 4);
  EXPECT_EQ(work.flops, 60);
  EXPECT_EQ(work.bytes, 4 * (2 * 5 + 5 * 3 + 2 * 2 * 3));  // an accumulated result is read and written
}

TEST(Operation, WorkOfPackedWeights) {
  // bf16 weights are read once and written as fp32, which the product then reads in their place.
  EXPECT_EQ(work_of(PackWeight{3, 5, true}, 2).flops, 0);
  EXPECT_EQ(work_of(PackWeight{3, 5, true}, 2).bytes, (2 + 4) * 5 * 3);
  const Gemm gemm{.m = 2, .n = 3, .k = 5, .packed_b = true};
  EXPECT_EQ(work_of(gemm, 2).flops, 60);
  EXPECT_EQ(work_of(gemm, 2).bytes, 2 * (2 * 5 + 2 * 3) + 4 * 5 * 3);
  EXPECT_EQ(kind_name(PackWeight{}), "pack_weight");
}

TEST(Operation, WorkOfAnEpilogue) {
  // One matrix more than the product's three: gelu(C) is written, or x is read. C itself isn't read again.
  const Work plain = work_of(Gemm{2, 3, 5}, 2);
  const Work gelu = work_of(Gemm{.m = 2, .n = 3, .k = 5, .epilogue = Epilogue::gelu}, 2);
  const Work gradient = work_of(Gemm{.m = 2, .n = 3, .k = 5, .epilogue = Epilogue::gelu_gradient}, 2);
  EXPECT_EQ(gelu.bytes, plain.bytes + 2 * 2 * 3);
  EXPECT_EQ(gelu.flops, plain.flops + work_of(GeluForward{6}, 2).flops);
  EXPECT_EQ(gradient.bytes, plain.bytes + 2 * 2 * 3);
  EXPECT_EQ(gradient.flops, plain.flops + work_of(GeluBackward{6}, 2).flops);
}

TEST(Operation, CollectivesSendTheBytesOfARing) {
  // 4 ranks, 100 fp32 elements in total: 3/4 of them are sent once for a gather or scatter, twice for an all-reduce.
  EXPECT_EQ(work_of(AllReduce{Channel::data, 4, 100}, 4).network_bytes, 600);
  EXPECT_EQ(work_of(AllGather{Channel::data, 4, 25}, 4).network_bytes, 300);
  EXPECT_EQ(work_of(ReduceScatter{Channel::data, 4, 25}, 4).network_bytes, 300);
  EXPECT_EQ(work_of(AllReduce{Channel::data, 1, 100}, 4).network_bytes, 0);
}

TEST(Operation, AllReduceWorkspaceHoldsASliceOfEveryPeer) {
  EXPECT_EQ(all_reduce_workspace(100, 1), 0);
  EXPECT_EQ(all_reduce_workspace(100, 4), 75);
  EXPECT_EQ(all_reduce_workspace(101, 4), 78);
  EXPECT_EQ(all_reduce_workspace(1, 3), 2);
}

TEST(Operation, FieldsAreVisitedByName) {
  std::string text;
  for_each_field(Operation(Gemm{2, 3, 5, true}), [&](std::string_view name, auto value) {
    text += std::string(name) + "=" + std::to_string(static_cast<std::int64_t>(value)) + " ";
  });
  EXPECT_EQ(text, "m=2 n=3 k=5 trans_a=1 trans_b=0 accumulate=0 has_bias=0 ");
  text.clear();
  for_each_field(Operation(Gemm{.m = 2, .n = 3, .k = 5, .packed_b = true}),
                 [&](std::string_view name, auto) { text += std::string(name) + " "; });
  EXPECT_EQ(text, "m n k trans_a trans_b accumulate has_bias packed_b ");
  text.clear();
  for_each_field(Operation(Gemm{.m = 2, .n = 3, .k = 5, .epilogue = Epilogue::gelu_gradient}),
                 [&](std::string_view name, auto) { text += std::string(name) + " "; });
  EXPECT_EQ(text, "m n k trans_a trans_b accumulate has_bias epilogue ");
}

}  // namespace
}  // namespace weft::graph
