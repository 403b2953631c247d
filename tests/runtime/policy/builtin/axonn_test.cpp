#include "runtime/policy/builtin/axonn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

using Strings = std::vector<std::string>;

class Axonn : public ::testing::Test {
 protected:
  void make(const std::string& parameters) {
    order_ = testing::order_of(*make_policy("axonn" + parameters), *graph_, {.compute_streams = 2});
    plan_ = plan::make_plan(graph_, order_, "axonn");
    EXPECT_TRUE(plan::check_plan(plan_).empty());
  }
  /// The edges within a step.
  Strings waits(const std::string& task) const {
    Strings waits = testing::waits_of(plan_, task);
    std::erase_if(waits, [](const std::string& wait) { return wait.back() == '\''; });
    return waits;
  }
  plan::Reason reason(const std::string& task) const { return testing::reason_of(*graph_, order_, task); }
  static plan::Reason because(AxonnPolicy::Code code) { return {.table = &AxonnPolicy::kReasons, .code = code}; }

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
  EXPECT_EQ(reason("i1"), because(AxonnPolicy::kBlocking));
  EXPECT_EQ(reason("d1"), because(AxonnPolicy::kData));
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
  EXPECT_EQ(reason("g1"), because(AxonnPolicy::kGatheredNext));
  EXPECT_EQ(reason("i1"), because(AxonnPolicy::kReduced));
  EXPECT_EQ(reason("s1"), because(AxonnPolicy::kScattered));
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
  EXPECT_EQ(reason("h0"), because(AxonnPolicy::kBlocking));
}

/// A layer of two products that is recomputed: h gathers a weight again, f computes the product again.
std::shared_ptr<const graph::Graph> recomputed_layer() {
  testing::ToyGraph toy;
  constexpr std::int64_t n = 32;
  graph::View x = toy.tensor("x", n, graph::Role::input), gathered[2];
  for (const int product : {0, 1}) {
    const std::string number = std::to_string(product);
    const graph::View weight = toy.tensor("w" + number, n, graph::Role::parameter), y = toy.tensor("y" + number, n);
    gathered[product] = toy.tensor("gathered" + number, 2 * n, graph::Role::gathered);
    toy.add("h" + number, graph::AllGather{graph::Channel::z_gather, 2, n},
            {graph::read(weight), graph::write(gathered[product])}, 0, 0, graph::Phase::backward);
    toy.add("f" + number, graph::Gemm{1, n, 1, false, true},
            {graph::read(x), graph::read(gathered[product]), graph::write(y)}, 0, 0, graph::Phase::backward);
    x = y;
  }
  for (const int product : {1, 0}) {
    const graph::View dx = toy.tensor("dx" + std::to_string(product), n);
    toy.add("di" + std::to_string(product), graph::Gemm{1, n, 1},
            {graph::read(x), graph::read(gathered[product]), graph::write(dx)}, 0, 0, graph::Phase::backward);
    x = dx;
  }
  return toy.build();
}

TEST_F(Axonn, LooksAheadWithinARecomputedLayerWhoseFirstGatherBlocks) {
  graph_ = recomputed_layer();
  make("");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "h0 h1 f0 f1 di1 di0");
  EXPECT_EQ(reason("h0"), because(AxonnPolicy::kBlocking));
  EXPECT_EQ(reason("h1"), because(AxonnPolicy::kGatheredNext));
  EXPECT_EQ(waits("f0"), Strings{"z_gather:h0"});
  EXPECT_EQ(waits("f1"), Strings{"z_gather:h1"});
  make(":oag=false");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "h0 f0 h1 f1 di1 di0");
}

/// Backward products of three layers, whose weight gradients are reduced (s) and then cast (c).
std::shared_ptr<const graph::Graph> cast_gradients() {
  testing::ToyGraph toy;
  constexpr std::int64_t n = 32;
  graph::View dy = toy.tensor("dloss", n, graph::Role::input);
  const auto add = [&](const std::string& name, const graph::Operation& operation,
                       std::vector<graph::Access> accesses) {
    toy.add({name, operation, std::move(accesses), name.back() - '0', 0, graph::Phase::backward});
  };
  for (const char* layer : {"2", "1", "0"}) {
    const auto tensor = [&](const std::string& name, std::int64_t elements, graph::Role role) {
      return toy.tensor(name + layer, elements, role);
    };
    const graph::View dx = tensor("dx", n, graph::Role::activation), dw = tensor("dw", 2 * n, graph::Role::gradient),
                      shard = tensor("shard", n, graph::Role::gradient),
                      cast = tensor("cast", n, graph::Role::gradient);
    const graph::View w = tensor("w", n, graph::Role::parameter);
    add(std::string("di") + layer, graph::Gemm{1, n, 1}, {graph::read(dy), graph::read(w), graph::write(dx)});
    add(std::string("dw") + layer, graph::Gemm{1, n, 1, true}, {graph::read(dy), graph::read(w), graph::write(dw)});
    add(std::string("s") + layer, graph::ReduceScatter{graph::Channel::z_scatter, 2, n},
        {graph::read(dw), graph::write(shard)});
    add(std::string("c") + layer, graph::Add{n}, {graph::read(shard), graph::write(cast)});
    dy = dx;
  }
  return toy.build();
}

TEST_F(Axonn, CastsOfReducedGradientsFollowTheBackwardPass) {
  graph_ = cast_gradients();
  make("");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "di2 dw2 s2 di1 dw1 s1 di0 dw0 s0 c2 c1 c0");
  EXPECT_EQ(waits("di0"), Strings{});
  EXPECT_EQ(waits("c2"), Strings{"z_scatter:s0"});
  EXPECT_EQ(reason("c2"), because(AxonnPolicy::kScattered));
  make(":ors=false");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "di2 dw2 s2 c2 di1 dw1 s1 c1 di0 dw0 s0 c0");
}

/// Three micro-batches, each with a forward product (f), a weight gradient (d), its reduction (s), the sum with the one
/// before (a), and an input gradient (e).
std::shared_ptr<const graph::Graph> scattered_micro_batches() {
  testing::ToyGraph toy;
  constexpr std::int64_t n = 32;
  const graph::View x = toy.tensor("x", n, graph::Role::input), w = toy.tensor("w", n, graph::Role::parameter);
  graph::View sum;
  for (std::int32_t mb = 0; mb < 3; ++mb) {
    const auto tensor = [&](const std::string& name, std::int64_t elements, graph::Role role) {
      return toy.tensor(name + std::to_string(mb), elements, role);
    };
    const auto add = [&](const std::string& name, const graph::Operation& operation,
                         std::vector<graph::Access> accesses, graph::Phase phase = graph::Phase::backward) {
      toy.add({name + std::to_string(mb), operation, std::move(accesses), 0, mb, phase});
    };
    const graph::View y = tensor("y", n, graph::Role::activation), dx = tensor("dx", n, graph::Role::activation),
                      dw = tensor("dw", 2 * n, graph::Role::gradient), part = tensor("part", n, graph::Role::gradient);
    add("f", graph::Gemm{1, n, 1}, {graph::read(x), graph::read(w), graph::write(y)}, graph::Phase::forward);
    add("d", graph::Gemm{1, n, 1, true}, {graph::read(y), graph::read(x), graph::write(dw)});
    add("s", graph::ReduceScatter{graph::Channel::z_scatter, 2, n}, {graph::read(dw), graph::write(part)});
    const graph::View before = std::exchange(sum, mb == 0 ? part : tensor("sum", n, graph::Role::gradient));
    if (mb > 0) add("a", graph::Add{n}, {graph::read(before), graph::read(part), graph::write(sum)});
    add("e", graph::Gemm{1, n, 1}, {graph::read(y), graph::read(w), graph::write(dx)});
  }
  return toy.build();
}

TEST_F(Axonn, EachMicroBatchWaitsForItsOwnReductions) {
  graph_ = scattered_micro_batches();
  make("");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "f0 d0 s0 e0 f1 d1 s1 e1 a1 f2 d2 s2 e2 a2");
  EXPECT_EQ(waits("e0"), Strings{});
  EXPECT_EQ(waits("f1"), Strings{"z_scatter:s0"});
  EXPECT_EQ(waits("e1"), Strings{});
  EXPECT_EQ(waits("a1"), Strings{"z_scatter:s1"});
  make(":ors=false");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "f0 d0 s0 e0 f1 d1 s1 a1 e1 f2 d2 s2 a2 e2");
  EXPECT_EQ(waits("e0"), Strings{"z_scatter:s0"});
}

TEST_F(Axonn, AWindowWaitsForTheOldestReduction) {
  graph_ = cast_gradients();
  make(":window=1");
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "di2 dw2 s2 di1 dw1 s1 di0 dw0 s0 c2 c1 c0");
  EXPECT_EQ(waits("di1"), Strings{});
  EXPECT_EQ(waits("di0"), Strings{"z_scatter:s2"});
  make(":window=2");
  EXPECT_EQ(waits("di0"), Strings{});
  EXPECT_EQ(waits("c2"), Strings{"z_scatter:s0"});
}

}  // namespace
}  // namespace weft::policy
