// One plan on all ranks: rank 0 decides, and all ranks report a difference.
#include "runtime/execute/program/agree_on_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

TEST(AgreeOnPlan, RankZeroDecides) {
  const auto graph = testing::random_graph(3);
  // Each rank would order the tasks in another way if it were asked.
  std::vector<std::shared_ptr<const plan::Plan>> plans(4);
  testing::on_ranks(4, [&](comm::World& world) {
    const testing::RandomPolicy policy(static_cast<std::uint64_t>(world.rank()) + 1);
    plans[static_cast<std::size_t>(world.rank())] = agree_on_plan(world, {graph}, policy, {.compute_streams = 2});
  });
  const testing::RandomPolicy of_rank_0(1), of_rank_1(2);
  const policy::PolicyOptions options{.compute_streams = 2};
  const plan::Plan alone = plan::make_plan(graph, of_rank_0.order(*graph, options), "random");
  ASSERT_NE(plan::make_plan(graph, of_rank_1.order(*graph, options), "random").fingerprint, alone.fingerprint);
  for (const auto& plan : plans) {
    EXPECT_EQ(plan->fingerprint, alone.fingerprint);
    EXPECT_EQ(plan->collective_fingerprint, alone.collective_fingerprint);
    EXPECT_EQ(plan->sequence, alone.sequence);
    EXPECT_EQ(plan->offset, alone.offset);
  }
}

std::shared_ptr<const graph::Graph> two_layers(std::int64_t second_size) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 64, graph::Role::parameter), y = toy.tensor("y", 64, graph::Role::parameter);
  toy.collective("L0.reduce", graph::Channel::data, {graph::read_write(x)}, 64);
  toy.collective("L1.reduce", graph::Channel::data, {graph::read_write(y)}, second_size);
  return toy.build();
}

TEST(AgreeOnPlan, OtherGraphsAreRefusedOnEveryRankAndNamed) {
  testing::on_ranks(3, [&](comm::World& world) {
    const auto graph = two_layers(world.rank() == 2 ? 63 : 64);
    EXPECT_TRUE(refuses<RuntimeFault>([&] { agree_on_plan(world, {graph}, *policy::make_policy("program"), {}); },
                                      {"rank 2 has another graph than rank 0",
                                       "line 4: rank 2 has 'task L1.reduce all_reduce channel=data ranks=2 count=63",
                                       "fix: start all ranks with the same configuration"}));
  });
}

TEST(AgreeOnPlan, AGraphThatEndsEarlyIsNamedToo) {
  const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
    testing::ToyGraph toy;
    const graph::View x = toy.tensor("x", 64, graph::Role::parameter);
    toy.compute("a", {graph::write(x)});
    if (world.rank() == 0) toy.compute("b", {graph::read(x)});
    agree_on_plan(world, {toy.build()}, *policy::make_policy("program"), {});
  });
  EXPECT_EQ(end.code, 3);
  EXPECT_TRUE(has_parts(end.errors, {"line 3: rank 1 has nothing more where rank 0 has 'task b add n=1"}));
}

GemmTuning tuning_of(std::int64_t slice_rows) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 64;
  problem.strides = {64, 64, 64};
  return GemmTuning({{problem, cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, slice_rows, 64}}});
}

// Ranks that compute products in different ways get different bits.
TEST(AgreeOnPlan, OtherTablesOfProductsAreRefused) {
  const auto graph = two_layers(64);
  const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
    const GemmTuning tuning = tuning_of(world.rank() == 0 ? 64 : 32);
    agree_on_plan(world, {graph}, *policy::make_policy("program"), {}, &tuning);
  });
  EXPECT_EQ(end.code, 3);
  EXPECT_TRUE(
      has_parts(end.errors, {"rank 1 has another table of tuned matrix products", "64x64x64 NN f32: sgemm 32x64"}))
      << " not in ";
}

// So is the unit that multiplies bf16, whichever it is: ranks may have different ones as their widest.
TEST(AgreeOnPlan, TheTableOfProductsIsPartOfTheFingerprint) {
  const auto graph = two_layers(64);
  testing::on_ranks(1, [&](comm::World& world) {
    const auto fingerprint = [&](const GemmTuning* tuning) {
      return agree_on_plan(world, {graph}, *policy::make_policy("program"), {}, tuning)->fingerprint;
    };
    const GemmTuning empty, first = tuning_of(64), second = tuning_of(32);
    const GemmTuning floats({}, PackedUnit::f32), pairs({}, PackedUnit::pairs);
    std::set<std::uint64_t> fingerprints = {fingerprint(nullptr)};
    for (const GemmTuning* tuning : {&empty, &first, &first, &second, &floats, &pairs, &pairs}) {
      fingerprints.insert(fingerprint(tuning));
    }
    EXPECT_EQ(fingerprints.size(), 5U) << "no table is an empty one";
  });
}

// An unsafe plan is never returned. The policy here gives orders that no executor may run.
class Backwards final : public policy::OneClassPolicy {
 public:
  std::string name() const override { return "backwards"; }
  plan::Order order(const graph::Graph& graph, const policy::PolicyOptions& options) const override {
    plan::Order order = testing::order_of(*policy::make_policy("program"), graph, options);
    std::swap(order.sequence.front(), order.sequence.back());
    return order;
  }
};

TEST(AgreeOnPlan, ABadOrderIsRefusedOnEveryRank) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 64);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::read(x)});
  const auto graph = toy.build();
  testing::on_ranks(
      3, [&](comm::World& world) { EXPECT_THROW(agree_on_plan(world, {graph}, Backwards(), {}), std::logic_error); });
}

}  // namespace
}  // namespace weft::execute
