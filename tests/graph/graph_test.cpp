// Edge inference: the accesses that order tasks, within a step and across two steps.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <vector>

namespace weft::graph {
namespace {

using Reason = EdgeReason;

// Tasks are Adds with arbitrary accesses: inference looks only at the accesses.
class Sketch {
 public:
  TensorId tensor(const std::string& name, Role role = Role::activation, std::int64_t n = 16) {
    return builder_.add_tensor({name, DType::f32, {n}, role});
  }
  void task(const std::string& name, std::vector<Access> accesses) {
    builder_.add_task({name, Add{1}, std::move(accesses), -1, -1, Phase::forward});
  }
  View all(TensorId id) { return whole(builder_, id); }
  Graph build() { return std::move(builder_).build(); }

 private:
  GraphBuilder builder_{Arguments::of_any_form};
};

using Found = std::vector<std::tuple<std::string, std::string, Reason, int>>;

Found edges_of(const Graph& graph) {
  Found found;
  for (const Edge& edge : graph.edges()) {
    found.emplace_back(graph.task(edge.from).name, graph.task(edge.to).name, edge.reason, edge.distance);
  }
  return found;
}

TEST(Graph, OrdersReadersBehindTheWriterAndTheNextWriterBehindTheReaders) {
  // w → r1, r2 → w2
  Sketch sketch;
  const TensorId x = sketch.tensor("x");
  sketch.task("w", {write(sketch.all(x))});
  sketch.task("r1", {read(sketch.all(x))});
  sketch.task("r2", {read(sketch.all(x))});
  sketch.task("w2", {write(sketch.all(x))});
  EXPECT_EQ(edges_of(sketch.build()), (Found{{"w", "r1", Reason::read_after_write, 0},
                                             {"w", "r2", Reason::read_after_write, 0},
                                             {"w", "w2", Reason::write_after_write, 0},
                                             {"r1", "w2", Reason::write_after_read, 0},
                                             {"r2", "w2", Reason::write_after_read, 0}}));
}

TEST(Graph, AWriteHidesWhatItCovers) {
  Sketch sketch;
  const TensorId x = sketch.tensor("x");
  sketch.task("w", {write(sketch.all(x))});
  sketch.task("w2", {write(sketch.all(x))});
  sketch.task("r", {read(sketch.all(x))});
  EXPECT_EQ(edges_of(sketch.build()),
            (Found{{"w", "w2", Reason::write_after_write, 0}, {"w2", "r", Reason::read_after_write, 0}}));
}

TEST(Graph, AccumulationKeepsProgramOrder) {
  Sketch sketch;
  const TensorId x = sketch.tensor("x");
  sketch.task("w", {write(sketch.all(x))});
  sketch.task("a", {read_write(sketch.all(x))});
  sketch.task("b", {read_write(sketch.all(x))});
  EXPECT_EQ(edges_of(sketch.build()),
            (Found{{"w", "a", Reason::read_after_write, 0}, {"a", "b", Reason::read_after_write, 0}}));
}

TEST(Graph, DisjointColumnsOfAMatrixAreIndependent) {
  // x is 4 × 6: two windows of columns, and one that overlaps the second.
  Sketch sketch;
  const TensorId x = sketch.tensor("x", Role::activation, 24);
  const View left{x, 0, 4, 2, 6}, middle{x, 2, 4, 2, 6}, right{x, 3, 4, 3, 6};
  sketch.task("left", {write(left)});
  sketch.task("middle", {write(middle)});
  sketch.task("right", {read(right)});
  EXPECT_EQ(edges_of(sketch.build()), (Found{{"middle", "right", Reason::read_after_write, 0}}));
}

TEST(Graph, StateCarriesEdgesIntoTheNextStep) {
  // "use" reads the weights, "update" writes them: the next step's "use" follows this step's "update".
  Sketch sketch;
  const TensorId w = sketch.tensor("w", Role::parameter);
  const TensorId y = sketch.tensor("y");
  sketch.task("use", {read(sketch.all(w)), write(sketch.all(y))});
  sketch.task("update", {read_write(sketch.all(w)), read(sketch.all(y))});
  EXPECT_EQ(edges_of(sketch.build()),
            (Found{{"update", "use", Reason::read_after_write, 1}, {"use", "update", Reason::read_after_write, 0}}));
}

TEST(Graph, FindsEdgesOfATask) {
  Sketch sketch;
  const TensorId x = sketch.tensor("x");
  sketch.task("w", {write(sketch.all(x))});
  sketch.task("r1", {read(sketch.all(x))});
  sketch.task("r2", {read(sketch.all(x))});
  const Graph graph = sketch.build();
  EXPECT_EQ(graph.in_edges(graph.find_task("r2")).size(), 1U);
  EXPECT_EQ(graph.out_edges(graph.find_task("w")).size(), 2U);
  EXPECT_EQ(graph.out_edges(graph.find_task("w"))[1].to, graph.find_task("r2"));
  EXPECT_FALSE(graph.find_task("r3").valid());
  EXPECT_EQ(graph.find_tensor("x"), x);
}

TEST(Graph, RefusesMistakesOfTheBuilder) {
  Sketch sketch;
  const TensorId x = sketch.tensor("x");
  EXPECT_THROW(sketch.tensor("x"), std::logic_error);
  EXPECT_THROW(sketch.task("past", {write({x, 8, 1, 9, 9})}), std::logic_error);
  EXPECT_THROW(sketch.task("none", {write({TensorId(7), 0, 1, 1, 1})}), std::logic_error);
  sketch.task("r", {read(sketch.all(x))});
  EXPECT_THROW(sketch.task("r", {}), std::logic_error);
  EXPECT_THROW(sketch.build(), std::logic_error) << "x is read before any task writes it";
}

TEST(Graph, FingerprintTellsGraphsApart) {
  const auto build = [](const std::string& name, std::int64_t n) {
    Sketch sketch;
    const TensorId x = sketch.tensor("x");
    sketch.task(name, {write({x, 0, 1, n, n})});
    return sketch.build().fingerprint();
  };
  EXPECT_EQ(build("a", 4), build("a", 4));
  EXPECT_NE(build("a", 4), build("b", 4));
  EXPECT_NE(build("a", 4), build("a", 5));
}

}  // namespace
}  // namespace weft::graph
