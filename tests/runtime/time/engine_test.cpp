#include "runtime/time/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/runtime/toy_graph.h"

namespace weft::time {
namespace {

/// Two ranks of a class with a computation, "a", and a collective, "b", which takes 100 ns alone and twice as long
/// beside the computation of its rank.
class TwoRanks : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kComputation = 0, kCollective = 1;

  TwoRanks() {
    testing::ToyGraph toy;
    toy.compute("a", {write(toy.tensor("x", 8))});
    toy.collective("b", graph::Channel::data, {graph::read_write(toy.tensor("y", 8, graph::Role::parameter))});
    graph_ = toy.build();
    const cost::TaskCosts costs{.ns = {100, 100}, .cpu_ns = {0, 0}, .beside_ns = {100, 200}};
    loads_ =
        std::make_unique<ClassLoads>(*graph_, plan::streams_of(*graph_, 1), costs, nullptr, std::vector<int>(), false);
    engine_ = std::make_unique<Engine>(std::span(loads_.get(), 1), nullptr, std::vector<std::uint32_t>{0, 0});
  }

  void meet() {
    engine_->start(engine_->slot(0, 1), kCollective, 100);
    engine_->join(engine_->slot(1, 1), kCollective, engine_->slot(0, 1));
    settle();
  }
  void settle() {
    for (const std::size_t rank : {0U, 1U}) engine_->settle(rank);
  }
  /// Ends tasks in turn, and returns when each ended.
  std::vector<double> ends() {
    std::vector<double> ends;
    while (!engine_->empty()) {
      engine_->advance(engine_->next());
      engine_->end(engine_->first());
      settle();
      ends.push_back(engine_->now());
    }
    return ends;
  }

  std::shared_ptr<const graph::Graph> graph_;
  std::unique_ptr<ClassLoads> loads_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(TwoRanks, AMeetingRunsAtTheRateOfItsSlowestMember) {
  meet();
  engine_->start(engine_->slot(1, 0), kComputation, 60);
  settle();
  EXPECT_EQ(ends(), (std::vector<double>{60, 130}));
}

TEST_F(TwoRanks, AllMembersEndAtOnceAndTheLeadTellsWhen) {
  meet();
  EXPECT_EQ(engine_->finish(engine_->slot(0, 1)), 100);
  EXPECT_EQ(engine_->finish(engine_->slot(1, 1)), Engine::kNever);
  EXPECT_FALSE(engine_->idle(engine_->slot(1, 1)));
  engine_->advance(100);
  engine_->end(engine_->first());
  EXPECT_TRUE(engine_->idle(engine_->slot(0, 1)) && engine_->idle(engine_->slot(1, 1)));
}

TEST_F(TwoRanks, AnEarlierStateEndsAsItDid) {
  meet();
  engine_->start(engine_->slot(0, 0), kComputation, 60);
  settle();
  engine_->advance(20);
  const Engine::State earlier = engine_->state();
  EXPECT_EQ(engine_->remaining(engine_->slot(0, 1)), 90);
  const std::vector<double> first = ends();
  engine_->restore(earlier);
  EXPECT_EQ(engine_->now(), 20);
  EXPECT_EQ(ends(), first);
  engine_->restore(earlier);
  engine_->reset();
  EXPECT_EQ(engine_->now(), 0);
  EXPECT_TRUE(ends().empty());
}

}  // namespace
}  // namespace weft::time
