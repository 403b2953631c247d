// What the recorded order of a stream holds, by how much of it is kept.
#include "graph/stream_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace weft::graph {
namespace {

/// "a>b": the edge holds; "a~b": it holds and is nothing but order; "a-b": only the begins are ordered.
using Edges = std::set<std::string>;

class StreamOrder : public ::testing::Test {
 protected:
  void task(const std::string& name, OpenKind kind, std::int32_t stream, std::int32_t micro_batch = -1) {
    OpenTask& added = step_.tasks.emplace_back();
    added.name = name;
    added.kind = kind;
    added.stream = stream;
    added.micro_batch = micro_batch;
  }
  void edge(const std::string& from, const std::string& to, EdgeSource source = EdgeSource::stream) {
    step_.edges.push_back({index(from), index(to), EdgeKind::completes_before, source});
  }
  Edges held(KeptOrder kept) const {
    Edges out;
    for (const HeldEdge& held : held_edges(step_, kept)) {
      const char* mark = held.only_order ? "~" : held.edge.kind == EdgeKind::issued_before ? "-" : ">";
      out.insert(step_.tasks[held.edge.from].name + mark + step_.tasks[held.edge.to].name);
    }
    return out;
  }
  std::uint32_t index(const std::string& name) const {
    const auto found = std::ranges::find(step_.tasks, name, &OpenTask::name);
    EXPECT_NE(found, step_.tasks.end()) << name;
    return static_cast<std::uint32_t>(found - step_.tasks.begin());
  }

  OpenClass step_;
};

TEST_F(StreamOrder, OfCollectivesIsOrderAlone) {
  task("a", OpenKind::compute, 0);
  task("sum1", OpenKind::collective, 1);
  task("b", OpenKind::compute, 0);
  task("sum2", OpenKind::collective, 1);
  edge("a", "b"), edge("sum1", "sum2");
  edge("a", "sum1", EdgeSource::synchronisation), edge("b", "sum2", EdgeSource::pairing);
  EXPECT_EQ(held(KeptOrder::all), (Edges{"a>sum1", "b>sum2", "a>b", "a~b", "sum1~sum2"}));
  EXPECT_EQ(held(KeptOrder::computations), (Edges{"a>sum1", "b>sum2", "a>b"}));
  EXPECT_EQ(held(KeptOrder::none), (Edges{"a>sum1", "b>sum2"}));
  EXPECT_TRUE(has_stream_order(step_));
}

TEST_F(StreamOrder, BetweenMicroBatchesIsOrderAlone) {
  task("start", OpenKind::compute, 0);
  task("x0", OpenKind::compute, 0, 0);
  task("x1", OpenKind::compute, 0, 1);
  task("y0", OpenKind::compute, 0, 0);
  task("end", OpenKind::compute, 0);
  edge("start", "x0"), edge("x0", "x1"), edge("x1", "y0"), edge("y0", "end");
  EXPECT_EQ(held(KeptOrder::computations), (Edges{"start>x0", "start>x1", "x0>y0", "x1>end", "y0>end"}));
}

TEST_F(StreamOrder, HoldsBetweenACollectiveAndComputationsOfItsStream) {
  task("pack", OpenKind::compute, 1);
  task("gather1", OpenKind::collective, 1);
  task("gather2", OpenKind::collective, 1);
  task("unpack", OpenKind::compute, 1);
  edge("pack", "gather1"), edge("gather1", "gather2"), edge("gather2", "unpack");
  EXPECT_EQ(held(KeptOrder::computations),
            (Edges{"pack>gather1", "pack>gather2", "gather1>unpack", "gather2>unpack", "pack>unpack"}));
}

TEST_F(StreamOrder, OfThreadsAlwaysHolds) {
  task("call1", OpenKind::host, 2);
  task("call2", OpenKind::host, 2);
  edge("call1", "call2");
  EXPECT_FALSE(has_stream_order(step_));
  EXPECT_EQ(held(KeptOrder::none), (Edges{"call1>call2"}));
}

TEST_F(StreamOrder, OrdersBeginsOfWorkThatOverlapped) {
  for (const char* name : {"a", "b", "c"}) task(name, OpenKind::compute, 0, name[0] == 'b' ? 1 : 0);
  edge("a", "b"), edge("b", "c");
  step_.tasks[0].begin_ns = 0, step_.tasks[0].end_ns = 50'000;
  step_.tasks[2].begin_ns = 20'000, step_.tasks[2].end_ns = 60'000;
  EXPECT_EQ(held(KeptOrder::computations), (Edges{"a-c"}));
}

TEST_F(StreamOrder, SaysNothingAboutDataThatTheFileTells) {
  for (const char* name : {"a", "b", "c"}) task(name, OpenKind::compute, 0);
  edge("a", "b"), edge("b", "c");
  EXPECT_FALSE(knows_data(step_));
  edge("a", "c", EdgeSource::given), edge("a", "b", EdgeSource::given);
  EXPECT_TRUE(knows_data(step_));
  EXPECT_EQ(held(KeptOrder::computations), (Edges{"a>c", "a>b", "a~b", "b~c"}));
}

TEST_F(StreamOrder, HoldsWhereDataArentKnown) {
  for (const char* name : {"a", "b", "c", "d"}) task(name, OpenKind::compute, 0);
  edge("a", "b"), edge("b", "c"), edge("c", "d");
  const Edges recorded = held(KeptOrder::all);
  EXPECT_EQ(held(KeptOrder::known), recorded);
  EXPECT_EQ(free_order(step_, KeptOrder::known).known, 0);
  for (OpenTask& each : step_.tasks) each.data_known = each.name != "c";
  edge("a", "b", EdgeSource::data);
  EXPECT_EQ(held(KeptOrder::known), (Edges{"a>b", "a>c", "b>c", "c>d"}));
  step_.tasks[1].data_known = false, step_.tasks[2].data_known = true;
  EXPECT_EQ(held(KeptOrder::known), (Edges{"a>b", "b>c", "b>d"})) << "c and d may change places";
  const FreeOrder free = free_order(step_, KeptOrder::known), none = free_order(step_, KeptOrder::none);
  EXPECT_EQ(free.known, 1);
  EXPECT_EQ(free.assumed, 0);
  EXPECT_EQ(free.recorded, 3);
  EXPECT_EQ(none.known, 1);
  EXPECT_EQ(none.assumed, 1) << "a and b have an edge of their own";
}

TEST_F(StreamOrder, OfWaitsHoldsUnlessTheDataOfBothAreKnown) {
  task("a", OpenKind::compute, 0);
  task("b", OpenKind::collective, 1);
  task("c", OpenKind::compute, 0);
  edge("a", "b", EdgeSource::synchronisation), edge("b", "c", EdgeSource::pairing), edge("a", "c");
  for (OpenTask& each : step_.tasks) each.data_known = true;
  EXPECT_EQ(held(KeptOrder::known), Edges{});
  EXPECT_EQ(held(KeptOrder::none), (Edges{"a>b", "b>c"}));
  EXPECT_EQ(held(KeptOrder::computations), (Edges{"a>b", "b>c", "a~c"}));
  EXPECT_EQ(free_order(step_, KeptOrder::known).known, 3);
  step_.tasks[1].data_known = false;
  EXPECT_EQ(held(KeptOrder::known), (Edges{"a>b", "b>c"}));
  EXPECT_EQ(held(KeptOrder::none), (Edges{"a>b", "b>c"}));
}

TEST(KeptOrderNames, AreRead) {
  for (const KeptOrder kept : {KeptOrder::all, KeptOrder::known, KeptOrder::computations, KeptOrder::none}) {
    EXPECT_EQ(find_kept_order(to_string(kept)), kept);
  }
  EXPECT_EQ(find_kept_order("some"), std::nullopt);
}

}  // namespace
}  // namespace weft::graph
