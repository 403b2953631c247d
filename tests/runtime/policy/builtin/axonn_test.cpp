#include "runtime/policy/builtin/axonn.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/checker.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

class Axonn : public ::testing::Test {
 protected:
  void make(const std::string& parameters) {
    order_ = make_policy("axonn" + parameters)->order(*graph_, {.compute_streams = 2});
    plan_ = plan::make_plan(graph_, order_, "axonn");
    EXPECT_TRUE(plan::check_plan(plan_).empty());
  }
  /// The edges within a step.
  Strings waits(const std::string& task) const {
    Strings waits = testing::waits_of(plan_, task);
    std::erase_if(waits, [](const std::string& wait) { return wait.back() == '\''; });
    return waits;
  }

  std::shared_ptr<const graph::Graph> graph_ = testing::training_step(2);
  plan::Order order_;
  plan::Plan plan_;
};

TEST_F(Axonn, WithoutOverlapEachTaskWaitsForTheCollectiveBeforeIt) {
  make(":oar=false,ors=false,oag=false");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 f0 r0 g1 f1 r1 loss di1 i1 dw1 s1 di0 i0 dw0 s0 d1 d0 u0 u1");
  EXPECT_EQ(waits("f0"), Strings{"z_gather:g0"});
  EXPECT_EQ(waits("r0"), Strings{"compute0:f0"});
  EXPECT_EQ(waits("g1"), Strings{"x:r0"});  // reads nothing of it
  EXPECT_EQ(waits("f1"), Strings{"z_gather:g1"});
  EXPECT_EQ(waits("dw1"), Strings{"y:i1"});
  EXPECT_EQ(waits("di0"), Strings{"z_scatter:s1"});
  EXPECT_EQ(waits("d1"), Strings{"z_scatter:s0"});
  EXPECT_EQ(waits("u0"), Strings{"data:d0"});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "i1"), plan::Reason{.kind = plan::ReasonKind::axonn_blocking});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "d1"), plan::Reason{.kind = plan::ReasonKind::axonn_data});
}

TEST_F(Axonn, WithAllSwitchesWaitsStandWhereTheSwitchesPutThem) {
  make("");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 g1 f0 r0 f1 r1 loss di1 i1 dw1 s1 di0 i0 dw0 s0 d1 d0 u0 u1");
  EXPECT_EQ(waits("g1"), Strings{});
  EXPECT_EQ(waits("f0"), Strings{"z_gather:g0"});
  EXPECT_EQ(waits("f1"), (Strings{"x:r0", "z_gather:g1"}));
  EXPECT_EQ(waits("loss"), Strings{"x:r1"});  // never hidden in the forward pass
  EXPECT_EQ(waits("dw1"), Strings{});
  EXPECT_EQ(waits("di0"), Strings{"y:i1"});
  EXPECT_EQ(waits("d1"), Strings{"z_scatter:s0"});  // not only for its own s1
  EXPECT_EQ(waits("u0"), (Strings{"y:i0", "data:d0"}));
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g1"), plan::Reason{.kind = plan::ReasonKind::axonn_gathered_next});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "i1"), plan::Reason{.kind = plan::ReasonKind::axonn_reduced});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "s1"), plan::Reason{.kind = plan::ReasonKind::axonn_scattered});
}

TEST_F(Axonn, EachSwitchMovesItsOwnWait) {
  make(":ors=false,oag=false");
  EXPECT_EQ(waits("g1"), Strings{"x:r0"});
  EXPECT_EQ(waits("dw1"), Strings{});
  EXPECT_EQ(waits("di0"), (Strings{"y:i1", "z_scatter:s1"}));
  make(":oar=false,oag=false");
  EXPECT_EQ(waits("dw1"), Strings{"y:i1"});
  EXPECT_EQ(waits("di0"), Strings{});
  make(":oar=false,ors=false");
  EXPECT_EQ(waits("g1"), Strings{});
  EXPECT_EQ(waits("dw1"), Strings{"y:i1"});
}

TEST_F(Axonn, LooksAheadAsManyGathersAsItIsTold) {
  graph_ = testing::training_step(4);
  make(":lookahead=2");
  EXPECT_TRUE(testing::sequence_of(*graph_, order_).starts_with("g0 g1 g2 f0 r0 g3 f1 r1 f2"))
      << testing::sequence_of(*graph_, order_);
}

TEST_F(Axonn, UsesOneComputeStreamAndGathersOfTheBackwardPassBlock) {
  graph_ = testing::training_step(2, true);
  make("");
  EXPECT_EQ(std::ranges::count(order_.streams, true, &plan::Stream::compute), 1);
  EXPECT_EQ(testing::sequence_of(*graph_, order_),
            "g0 g1 f0 r0 f1 r1 loss h1 di1 i1 dw1 s1 h0 di0 i0 dw0 s0 d1 d0 u0 u1");
  EXPECT_EQ(waits("h0"), Strings{"compute0:dw1"});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "h0"), plan::Reason{.kind = plan::ReasonKind::axonn_blocking});
}

}  // namespace
}  // namespace weft::policy
