// Parts of a graph, by layer, neighbourhood and path, and the refusals of names that don't exist.
#include "inspect/drawing/task_choice.h"

#include <gtest/gtest.h>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

/// a → b → d → e and a → c → d; L0 holds b and c, L1 d.
struct Diamond {
  graph::Graph graph;
  std::vector<graph::Edge> added;

  Diamond() {
    graph::GraphBuilder builder(graph::Arguments::of_any_form);
    const auto tensor = [&](std::string name) {
      return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {4}, graph::Role::activation}));
    };
    const graph::View a = tensor("ta"), b = tensor("tb"), c = tensor("tc"), d = tensor("td"), e = tensor("te");
    builder.add_task({"a", graph::SelectRow{1, 4}, {graph::write(a)}});
    builder.add_task({"L0.b", graph::GeluForward{4}, {graph::read(a), graph::write(b)}, 0});
    builder.add_task({"L0.c", graph::GeluForward{4}, {graph::read(a), graph::write(c)}, 0});
    builder.add_task({"L1.d", graph::Add{4}, {graph::read(b), graph::read(c), graph::write(d)}, 1});
    builder.add_task({"e", graph::GeluForward{4}, {graph::read(d), graph::write(e)}});
    graph = std::move(builder).build();
  }
  graph::TaskId operator[](std::string_view name) const { return graph.find_task(name); }
  std::string chosen(const TaskChoice& choice) const {
    std::string names;
    for (const graph::TaskId task : chosen_tasks(graph, added, choice)) names += graph.task(task).name + " ";
    return names;
  }
};

TEST(TaskChoice, NothingAskedForIsAll) {
  const Diamond diamond;
  EXPECT_TRUE(TaskChoice().all());
  EXPECT_EQ(diamond.chosen({}), "a L0.b L0.c L1.d e ");
}

TEST(TaskChoice, LayersAreARange) {
  const Diamond diamond;
  EXPECT_EQ(diamond.chosen({.layers = named_layers(diamond.graph, "0")}), "L0.b L0.c ");
  EXPECT_EQ(diamond.chosen({.layers = named_layers(diamond.graph, "0..1")}), "L0.b L0.c L1.d ");
}

TEST(TaskChoice, NeighboursAreAtMostAsManyEdgesAway) {
  Diamond diamond;
  EXPECT_EQ(diamond.chosen({.around = diamond["L0.b"], .hops = 0}), "L0.b ");
  EXPECT_EQ(diamond.chosen({.around = diamond["L0.b"], .hops = 1}), "a L0.b L1.d ");
  EXPECT_EQ(diamond.chosen({.around = diamond["L0.b"], .hops = 2}), "a L0.b L1.d e ");
  diamond.added = {{diamond["L0.b"], diamond["L0.c"], graph::EdgeKind::issued_before, graph::EdgeReason::policy, 0,
                    graph::TensorId()}};
  EXPECT_EQ(diamond.chosen({.around = diamond["L0.b"], .hops = 1}), "a L0.b L0.c L1.d ");
}

TEST(TaskChoice, PathsLieBetweenTheirEnds) {
  const Diamond diamond;
  EXPECT_EQ(diamond.chosen({.from = diamond["L0.b"]}), "L0.b L1.d e ");
  EXPECT_EQ(diamond.chosen({.to = diamond["L0.c"]}), "a L0.c ");
  EXPECT_EQ(diamond.chosen({.from = diamond["a"], .to = diamond["L1.d"]}), "a L0.b L0.c L1.d ");
  EXPECT_EQ(diamond.chosen({.from = diamond["L0.b"], .to = diamond["L0.c"]}), "");
}

TEST(TaskChoice, UnknownNamesAreRefusedWithTheNearest) {
  const Diamond diamond;
  EXPECT_EQ(named_task(diamond.graph, "--around", "L1.d"), diamond["L1.d"]);
  EXPECT_TRUE(
      refuses([&] { named_task(diamond.graph, "--around", "L0.bb"); }, {"--around", "\"L0.bb\"", "--around L0.b"}));
  EXPECT_TRUE(refuses([&] { named_task(diamond.graph, "--to", "L0."); }, {"--to L0.b or L0.c"}));
  EXPECT_TRUE(refuses([&] { named_task(diamond.graph, "--from", "something else"); }, {"tasks.json"}));
}

TEST(TaskChoice, LayersThatDontExistAreRefused) {
  const Diamond diamond;
  for (const std::string text : {"2", "0..2", "1..0", "-1", "a", "0..", "..1", "", "0...1", "99999999999"}) {
    EXPECT_TRUE(refuses([&] { named_layers(diamond.graph, text); }, {"--layers " + text, "0 to 1", "--layers 0..1"}));
  }
  EXPECT_TRUE(refuses([&] { named_layers(graph::Graph(), "0"); }, {"a graph that has layers"}));
}

}  // namespace
}  // namespace weft::inspect
