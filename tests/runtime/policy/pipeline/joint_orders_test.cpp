#include "runtime/policy/pipeline/joint_orders.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/pipeline_toy.h"

namespace weft::policy {
namespace {

using Names = std::vector<std::string>;

std::vector<graph::TaskId> program_order_of(const graph::Graph& graph) {
  std::vector<graph::TaskId> tasks;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) tasks.emplace_back(i);
  return tasks;
}

// A receive comes when its send is ready, in the middle of the receiver's computations.
TEST(JointOrders, AReceiveIsIssuedWithItsSend) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2, .forward = 1000, .input = 500, .weight = 300});
  const std::vector<std::vector<graph::TaskId>> wanted = {program_order_of(*toy.classes()[0]),
                                                          program_order_of(*toy.classes()[1])};
  const auto sequences = joint_sequences(toy.classes(), wanted, {.cost_model = toy.prices()});
  EXPECT_EQ(testing::names_of(*toy.classes()[0], sequences[0]),
            (Names{"mb0.S0.fwd.p0", "mb0.S0.fwd.send", "mb0.S0.bwd.receive", "mb0.S0.bwd.input.p0",
                   "mb0.S0.bwd.weight.p0", "mb1.S0.fwd.p0", "mb1.S0.fwd.send", "mb1.S0.bwd.receive",
                   "mb1.S0.bwd.input.p0", "mb1.S0.bwd.weight.p0", "S0.update.p0"}));
}

// Sequences against dependencies, or that wait for each other in a cycle, become possible ones.
TEST(JointOrders, ImpossibleWishesAreChanged) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 3, .world = true});
  std::vector<std::vector<graph::TaskId>> wanted;
  for (const auto& graph : toy.classes()) {
    wanted.push_back(program_order_of(*graph));
    if (wanted.size() == 2) std::ranges::reverse(wanted.back());
  }
  const auto sequences = joint_sequences(toy.classes(), wanted, {});
  for (std::size_t k = 0; k < sequences.size(); ++k) {
    std::vector<std::size_t> place(sequences[k].size());
    for (std::size_t i = 0; i < sequences[k].size(); ++i) place[sequences[k][i].index()] = i;
    for (const graph::Edge& edge : toy.classes()[k]->edges()) {
      if (edge.distance > 0) continue;
      EXPECT_LT(place[edge.from.index()], place[edge.to.index()]);
    }
  }
}

}  // namespace
}  // namespace weft::policy
