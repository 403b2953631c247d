#include "graph/task_signature.h"

#include <gtest/gtest.h>

namespace weft::graph {
namespace {

std::string signature_of(const Operation& operation, DType dtype) {
  GraphBuilder builder(Arguments::of_any_form);
  const View x = whole(builder, builder.add_tensor({"x", dtype, {1}, Role::parameter}));
  builder.add_task({"task", operation, {read_write(x)}});
  const Graph graph = std::move(builder).build();
  return task_signature(graph, graph.task(TaskId(0)));
}

TEST(TaskSignature, OfACollectiveTellsItsOperation) {
  const Operation operations[] = {AllReduce{Channel::x, 2, 8},          ReduceScatter{Channel::z_scatter, 4, 5},
                                  AllGather{Channel::z_gather, 3, 1},   Broadcast{Channel::world, 8, 9, 7},
                                  Broadcast{Channel::world, 8, 9, 0},   Send{Channel::send_next, 0, 6},
                                  Receive{Channel::receive_next, 0, 6}, AllToAll{Channel::context, 2, 6},
                                  AllToAll{Channel::context, 2, 6, 3},  ExchangeRows{Channel::expert, 2, 6, 5, 10, 4}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Operation& operation : operations) {
      const std::string signature = signature_of(operation, dtype);
      const auto read = collective_of_signature(signature);
      ASSERT_TRUE(read.has_value()) << signature;
      EXPECT_EQ(read->dtype, dtype);
      EXPECT_EQ(signature_of(read->operation, dtype), signature);
    }
  }
}

TEST(TaskSignature, OfTheWayBackIsThatOfTheWayThere) {
  EXPECT_EQ(signature_of(AllToAll{Channel::context, 2, 6, 3, true}, DType::f32),
            "all_to_all channel=context ranks=2 count=6 parts=3 f32");
}

TEST(TaskSignature, OfAnythingElseTellsNoCollective) {
  for (const char* text :
       {"", " ", "all_reduce", "all_reduce f32", "gemm m=4 n=2 k=8 trans_b bf16", "all_reduce channel=data ranks=2 f32",
        "all_reduce channel=w ranks=2 count=8 f32", "all_reduce channel=data ranks=2 count=8x f32",
        "all_reduce channel=data ranks=-2 count=8 f32", "all_reduce channel=data ranks=2 count=8 root=1 f32",
        "all_reduce channel=data ranks=2 count f32", "all_reduce channel=data ranks=2 count=8 i32",
        "all_reduce channel=data ranks=2 count=99999999999999999999 f32", "send channel=send_next f32",
        "send channel=send_next ranks=2 count=8 f32"}) {
    EXPECT_FALSE(collective_of_signature(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace weft::graph
