// Buckets: their members, positions and layout.
#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::plan {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::ReductionToy;
using testing::rewritten;

TEST(Bucket, TensorsLieSideBySideAndOneMessageReducesThem) {
  const auto graph = rewritten(testing::gradients({16, 32, 16}), "bucket");
  EXPECT_EQ(names_of(*graph), (Names{"make0", "make1", "make2", "reduce2.bucket", "use0", "use1", "use2"}));
  const graph::Task& reduce = testing::task_of(*graph, "reduce2.bucket");
  EXPECT_EQ(std::get<graph::AllReduce>(reduce.operation).count, 64);
  EXPECT_EQ(reduce.accesses[0].view.elements(), 64);
  EXPECT_EQ(reduce.accesses[1].view.elements(), graph::all_reduce_workspace(64, 2));
  EXPECT_EQ(place_of(*graph, "make0", 0), "g0.bucket+0");
  EXPECT_EQ(place_of(*graph, "make1", 0), "g0.bucket+16");
  EXPECT_EQ(place_of(*graph, "use2", 0), "g0.bucket+48");
  EXPECT_EQ(testing::waits_for(*graph, "use1"), Names{"reduce2.bucket"});
  EXPECT_FALSE(graph->find_tensor("g1").valid());
  EXPECT_FALSE(graph->find_tensor("reduce1.workspace").valid());
}

TEST(Bucket, BytesLimitIt) {
  const auto graph = rewritten(testing::gradients({16, 16, 16, 64, 16}), "bucket=128");
  EXPECT_EQ(names_of(*graph), (Names{"make0", "make1", "reduce1.bucket", "make2", "reduce2", "make3", "reduce3",
                                     "make4", "reduce4", "use0", "use1", "use2", "use3", "use4"}));
}

TEST(Bucket, OneTensorOfAnOddSizeJoinsAsTheLast) {
  const auto graph = rewritten(testing::gradients({7, 16, 5, 32}), "bucket");
  EXPECT_EQ(names_of(*graph), (Names{"make0", "make1", "reduce1.bucket", "make2", "make3", "reduce3.bucket", "use0",
                                     "use1", "use2", "use3"}));
  EXPECT_EQ(place_of(*graph, "make1", 0), "g1.bucket+0");
  EXPECT_EQ(place_of(*graph, "make0", 0), "g1.bucket+16");
  EXPECT_EQ(place_of(*graph, "make2", 0), "g3.bucket+32");
}

TEST(Bucket, ReadersOfAnEarlierMemberMoveBehindIt) {
  ReductionToy toy;
  const graph::View a = toy.tensor("a", 16), b = toy.tensor("b", 16), other = toy.tensor("other", 16);
  toy.compute("make_a", {graph::write(a)});
  toy.reduce("reduce_a", a);
  toy.compute("use_a", {graph::read(a)});
  toy.compute("make_other", {graph::write(other)});
  toy.compute("make_b", {graph::write(b)});
  toy.reduce("reduce_b", b);
  EXPECT_EQ(names_of(*rewritten(toy.build(), "bucket")),
            (Names{"make_a", "make_other", "make_b", "reduce_b.bucket", "use_a"}));
}

TEST(Bucket, WhatWaitsForAMemberBeginsABucketOfItsOwn) {
  ReductionToy toy;
  const graph::View a = toy.tensor("a", 16), b = toy.tensor("b", 16);
  toy.compute("make_a", {graph::write(a)});
  toy.reduce("reduce_a", a);
  toy.compute("make_b", {graph::read(a), graph::write(b)});
  toy.reduce("reduce_b", b);
  const auto graph = toy.build();
  EXPECT_EQ(names_of(*rewritten(graph, "bucket")), names_of(*graph));
}

TEST(Bucket, StatePartsAndOtherKindsStayAlone) {
  ReductionToy toy;
  const graph::View state = toy.tensor("state", 16, graph::Role::parameter), a = toy.tensor("a", 16),
                    b = toy.tensor("b", 16);
  const graph::View wide = toy.tensor("wide", 32), grad = toy.tensor("grad", 16, graph::Role::gradient);
  for (const auto& [name, view] :
       std::vector<std::pair<std::string, graph::View>>{{"a", a}, {"b", b}, {"w", wide}, {"g", grad}}) {
    toy.compute("make_" + name, {graph::write(view)});
  }
  toy.reduce("reduce_state", state);
  toy.reduce("reduce_a", a);
  toy.reduce("reduce_part", {wide.tensor, 0, 1, 16, 16});
  toy.reduce("reduce_grad", grad);
  toy.add({"broadcast", graph::Broadcast{graph::Channel::data, 2, 8, 0}, {graph::read_write(state)}});
  toy.reduce("reduce_b", b, graph::Channel::x);
  const auto graph = toy.build();
  EXPECT_EQ(rewritten(graph, "bucket")->fingerprint(), graph->fingerprint());
}

TEST(Bucket, EachChannelHasItsOwn) {
  ReductionToy toy;
  std::vector<graph::View> views;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    views.push_back(toy.tensor("g" + n, 16, graph::Role::gradient));
    toy.compute("make" + n, {graph::write(views.back())});
    toy.reduce("z" + n, views.back(), graph::Channel::z_scatter);
    toy.reduce("data" + n, views.back());
  }
  EXPECT_EQ(names_of(*rewritten(toy.build(), "bucket")),
            (Names{"make0", "make1", "make2", "z2.bucket", "data2.bucket"}));
}

}  // namespace
}  // namespace weft::plan
