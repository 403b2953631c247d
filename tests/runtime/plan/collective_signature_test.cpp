#include "runtime/plan/collective_signature.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(CollectiveSignature, SaysWhatRanksMustAgreeOn) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  const graph::TaskId compute = toy.compute("a", {graph::write(x)});
  const graph::TaskId gather =
      toy.add({"g", graph::AllGather{graph::Channel::z_gather, 2, 4}, {graph::read(x), graph::write(y)}});
  const auto graph = toy.build();
  const CollectiveSignature signature = signature_of(*graph, gather);
  EXPECT_EQ(signature, (CollectiveSignature{"g", "all_gather", graph::Channel::z_gather, DType::f32, 4}));
  EXPECT_EQ(to_string(signature), "g (all_gather of 4 f32 on z_gather)");
  EXPECT_THROW(signature_of(*graph, compute), std::logic_error);
}

}  // namespace
}  // namespace weft::plan
