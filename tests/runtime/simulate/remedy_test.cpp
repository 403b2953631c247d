// Moves of tasks in an order: what goes along, what forbids a move, and the policy's edges.
#include "runtime/simulate/remedy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/toy_graph.h"

namespace weft::simulate {
namespace {

using testing::ToyGraph;

/// a → b → c, and d, e apart.
class OrderMoves : public ::testing::Test {
 protected:
  OrderMoves() {
    ToyGraph toy;
    const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8), r = toy.tensor("r", 8);
    toy.compute("a", {graph::write(p)});
    toy.compute("d", {graph::write(q)});
    toy.compute("b", {graph::read_write(p)});
    toy.compute("e", {graph::write(r)});
    toy.compute("c", {graph::read(p)});
    graph_ = toy.build();
    order_ = testing::order_in(*graph_, "a d b e c");
  }
  graph::TaskId id(const std::string& name) const { return graph_->find_task(name); }
  std::string made(const std::vector<OrderMove>& moves) {
    plan::Order order = order_;
    if (std::string why = apply(*graph_, moves, order); !why.empty()) return why;
    std::string text;
    for (const plan::Placement& placement : order.sequence) text += graph_->task(placement.task).name;
    edges_ = order.added_edges.size();
    return text;
  }
  void edge(const std::string& from, const std::string& to) {
    order_.added_edges.push_back(
        {id(from), id(to), graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
  }
  std::shared_ptr<const graph::Graph> graph_;
  plan::Order order_;
  std::size_t edges_ = 0;
};

TEST_F(OrderMoves, TakeAlongWhatLeadsToATaskOrNeedsIt) {
  EXPECT_EQ(made({}), "adbec");
  EXPECT_EQ(made({{MoveKind::before, id("e"), id("a")}}), "eadbc");
  EXPECT_EQ(made({{MoveKind::before, id("c"), id("d")}}), "abcde");
  EXPECT_EQ(made({{MoveKind::after, id("d"), id("c")}}), "abecd");
  EXPECT_EQ(made({{MoveKind::after, id("b"), id("e")}}), "adebc");
  EXPECT_EQ(made({{MoveKind::after, id("a"), id("e")}}), "deabc");
  // A task that is there already stays.
  EXPECT_EQ(made({{MoveKind::before, id("a"), id("c")}, {MoveKind::after, id("c"), id("a")}}), "adbec");
}

TEST_F(OrderMoves, RefuseWhatTheGraphForbids) {
  EXPECT_EQ(made({{MoveKind::before, id("c"), id("a")}}), "c needs a");
  EXPECT_EQ(made({{MoveKind::after, id("a"), id("c")}}), "c needs a");
}

TEST_F(OrderMoves, KeepTheEdgesThatStillHold) {
  edge("a", "e");
  edge("d", "e");
  edge("a", "c");
  made({});
  EXPECT_EQ(edges_, 3U);
  EXPECT_EQ(made({{MoveKind::before, id("e"), id("d")}}), "aedbc");
  EXPECT_EQ(edges_, 2U);  // d → e is against the sequence
  made({{MoveKind::release, id("e"), {}}});
  EXPECT_EQ(edges_, 1U);
  made({{MoveKind::detach, id("a"), {}}});
  EXPECT_EQ(edges_, 2U);  // c needs a in any case
  made({{MoveKind::wait, id("c"), id("e")}});
  EXPECT_EQ(edges_, 4U);
}

TEST_F(OrderMoves, AreTranslatedByName) {
  ToyGraph toy;
  toy.compute("e", {graph::write(toy.tensor("r", 8))});
  toy.compute("a", {graph::write(toy.tensor("p", 8))});
  const auto other = toy.build();
  std::string missing;
  const std::vector<OrderMove> moves =
      translated({{MoveKind::before, id("a"), id("e")}, {MoveKind::release, id("e"), {}}}, *graph_, *other, missing);
  EXPECT_EQ(missing, "");
  EXPECT_EQ(moves, (std::vector<OrderMove>{{MoveKind::before, other->find_task("a"), other->find_task("e")},
                                           {MoveKind::release, other->find_task("e"), {}}}));
  translated({{MoveKind::before, id("d"), id("e")}}, *graph_, *other, missing);
  EXPECT_EQ(missing, "d");
}

}  // namespace
}  // namespace weft::simulate
