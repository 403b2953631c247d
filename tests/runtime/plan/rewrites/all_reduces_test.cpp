// All-reduces in pieces and in halves.
#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::plan {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::ReductionToy;
using testing::rewritten;
using testing::waits_for;

std::shared_ptr<const graph::Graph> one_reduction(std::int64_t elements, graph::Role role = graph::Role::gradient) {
  ReductionToy toy;
  const graph::View x = toy.tensor("x", elements, role);
  toy.compute("make", {graph::write(x)});
  toy.reduce("reduce", x);
  toy.compute("head", {graph::read({x.tensor, 0, 1, 8, 8})});
  toy.compute("tail", {graph::read({x.tensor, elements - 8, 1, 8, 8})});
  return toy.build();
}

TEST(SplitCollective, ReadersWaitForTheirPieceAlone) {
  const auto graph = rewritten(one_reduction(100), "split-collective=150");  // rounded down to 128 bytes, 32 floats
  EXPECT_EQ(names_of(*graph), (Names{"make", "reduce", "reduce#2", "reduce#3", "reduce#4", "head", "tail"}));
  EXPECT_EQ(waits_for(*graph, "head"), (Names{"make", "reduce"}));
  EXPECT_EQ(waits_for(*graph, "tail"), (Names{"make", "reduce#3", "reduce#4"}));
  EXPECT_EQ(waits_for(*graph, "reduce#3"), Names{"make"});
  EXPECT_EQ(place_of(*graph, "reduce#4", 0), "x+96");
  EXPECT_EQ(place_of(*graph, "reduce#4", 1), "reduce.workspace#4+0");
  EXPECT_EQ(testing::task_of(*graph, "reduce#4").accesses[1].view.elements(), graph::all_reduce_workspace(4, 2));
  std::int64_t count = 0;
  for (const graph::Task& task : graph->tasks()) {
    if (const auto* reduce = std::get_if<graph::AllReduce>(&task.operation)) count += reduce->count;
  }
  EXPECT_EQ(count, 100);
}

TEST(SplitCollective, WhatFitsStaysAndPiecesAreSplitAgain) {
  const auto graph = one_reduction(64);
  EXPECT_EQ(rewritten(graph, "split-collective=256")->fingerprint(), graph->fingerprint());
  EXPECT_EQ(names_of(*rewritten(graph, "split-collective=128;split-collective=1")),
            (Names{"make", "reduce", "reduce#22", "reduce#2", "reduce#2#2", "head", "tail"}));
}

TEST(ReduceScatterAllGather, TheHalvesPassThroughAShard) {
  for (const graph::Role role : {graph::Role::gradient, graph::Role::parameter}) {
    const auto graph = rewritten(one_reduction(100, role), "ar-to-rs-ag");
    EXPECT_EQ(names_of(*graph), (Names{"make", "reduce.reduce_scatter", "reduce.all_gather", "head", "tail"}));
    const graph::Task &scatter = testing::task_of(*graph, "reduce.reduce_scatter"),
                      &gather = testing::task_of(*graph, "reduce.all_gather");
    EXPECT_EQ(std::get<graph::ReduceScatter>(scatter.operation).count, 50);
    EXPECT_EQ(std::get<graph::AllGather>(gather.operation).count, 50);
    EXPECT_EQ(place_of(*graph, "reduce.reduce_scatter", 1), "reduce.shard+0");
    EXPECT_EQ(scatter.accesses[2].view.elements(), 50);
    EXPECT_EQ(place_of(*graph, "reduce.all_gather", 0), "reduce.shard+0");
    EXPECT_EQ(waits_for(*graph, "head"), Names{"reduce.all_gather"});
    EXPECT_FALSE(graph::is_state(graph->tensor(graph->find_tensor("reduce.shard")).role));
  }
}

TEST(ReduceScatterAllGather, WhatTheRanksDontDivideStays) {
  const auto graph = one_reduction(101);
  EXPECT_EQ(rewritten(graph, "ar-to-rs-ag")->fingerprint(), graph->fingerprint());
}

}  // namespace
}  // namespace weft::plan
