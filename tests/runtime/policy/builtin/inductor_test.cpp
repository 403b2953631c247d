#include "runtime/policy/builtin/inductor.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

/// c, a collective that a needs; k, a collective that needs m; b, m and e need nothing. Program order: c a b m k e.
std::shared_ptr<const graph::Graph> two_collectives() {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8);
  toy.collective("c", graph::Channel::x, {graph::read_write(x)}, 8);
  toy.compute("a", {graph::read(x), graph::write(toy.tensor("xa", 8))});
  toy.compute("b", {graph::write(toy.tensor("xb", 8))});
  toy.compute("m", {graph::write(y)});
  toy.collective("k", graph::Channel::y, {graph::read_write(y)}, 8);
  toy.compute("e", {graph::write(toy.tensor("xe", 8))});
  return toy.build();
}

class Inductor : public ::testing::Test {
 protected:
  std::string sequence(const std::string& policy, std::map<std::string, double> ns) {
    const PolicyOptions options{.cost_model = testing::named_costs(std::move(ns))};
    order_ = testing::order_of(*make_policy(policy), *graph_, options);
    plan_ = plan::make_plan(graph_, order_, "inductor");
    EXPECT_TRUE(plan::check_plan(plan_).empty());
    return testing::sequence_of(*graph_, order_);
  }
  std::shared_ptr<const graph::Graph> graph_ = two_collectives();
  plan::Order order_;
  plan::Plan plan_;
};

TEST_F(Inductor, ComputationsFollowACollectiveUntilTheyHideIt) {
  EXPECT_EQ(sequence("inductor:passes=reorder", {{"c", 1}, {"b", 2}}), "c b a m k e");
  EXPECT_EQ(sequence("inductor:passes=reorder", {{"c", 3}, {"b", 2}}), "c b m a k e");
  EXPECT_EQ(sequence("inductor:passes=reorder", {{"c", 9}, {"b", 2}}), "c b m e a k");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "m"),
            (plan::Reason{.table = &InductorPolicy::kReasons, .code = InductorPolicy::kHidesBefore, .ns = {1, 7}}));
}

TEST_F(Inductor, WaitsSink) {
  EXPECT_EQ(sequence("inductor:passes=sink", {}), "c b m k e a");
}

TEST_F(Inductor, WhatACollectiveNeedsIsRaised) {
  EXPECT_EQ(sequence("inductor:passes=raise", {}), "c m k a b e");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "k"),
            (plan::Reason{.table = &InductorPolicy::kReasons, .code = InductorPolicy::kIssuedAfterInput}));
}

TEST_F(Inductor, PassesFollowEachOther) {
  EXPECT_EQ(sequence("inductor:passes=", {}), "c a b m k e");
  EXPECT_EQ(sequence("inductor", {}), "c m k b e a");
  EXPECT_EQ(sequence("inductor:passes=reorder+sink+raise", {}), "c m k b e a");
}

TEST_F(Inductor, ACollectiveWaitsForTheComputationsBeforeIt) {
  sequence("inductor:passes=", {});
  const plan::Entry& k = plan_.streams.at(2).entries.at(0);
  EXPECT_EQ(graph_->task(k.task).name, "k");
  sequence("inductor:passes=sink", {});
  ASSERT_EQ(testing::waits_of(plan_, "k"), std::vector<std::string>{"compute0:m"});
  graph_ = testing::training_step(2);
  sequence("inductor:passes=", {});
  EXPECT_EQ(testing::waits_of(plan_, "g1"), std::vector<std::string>{"compute0:f0"}) << "as PyTorch's streams do";
}

TEST_F(Inductor, KeepsTheEdgesOfATrainingStep) {
  graph_ = testing::training_step(3, true);
  for (const char* passes : {"reorder", "sink", "raise", "raise+reorder+sink"}) {
    sequence(std::string("inductor:passes=") + passes, {{"i2", 5}, {"g1", 4}});
  }
}

TEST_F(Inductor, OtherPassesAreRefused) {
  EXPECT_THROW(make_policy("inductor:passes=shuffle"), UserError);
  EXPECT_THROW(make_policy("inductor:passes=sink+"), UserError);
}

}  // namespace
}  // namespace weft::policy
