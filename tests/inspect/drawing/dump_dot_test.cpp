// DOT text of small graphs: the drawn tasks, the ones left out and counted, and the boxes that stand for several tasks.
#include "inspect/drawing/dump_dot.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/inspect/drawing/count_matches.h"

namespace weft::inspect {
namespace {

std::string dump_dot(const graph::Graph& graph, const DrawingOptions& options = {},
                     const std::string& file_name = "graph.dot") {
  return weft::inspect::dump_dot(Drawing(graph, options), file_name);
}

using testing::contains;

TEST(DumpDot, GoldenOfTwoTasks) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::TensorId w = builder.add_tensor({"w", DType::f32, {8, 4}, graph::Role::parameter});
  const graph::TensorId y = builder.add_tensor({"y", DType::f32, {2, 8}, graph::Role::activation});
  const graph::TensorId x = builder.add_tensor({"x", DType::f32, {2, 4}, graph::Role::input});
  builder.add_task({"mb0.L0.up.fwd.gemm",
                    graph::Gemm{2, 8, 4, false, true},
                    {graph::read(graph::whole(builder, x)), graph::read(graph::whole(builder, w)),
                     graph::write(graph::whole(builder, y))},
                    0,
                    0});
  builder.add_task(
      {"mb0.L0.act.fwd.gelu", graph::GeluForward{16}, {graph::read_write(graph::whole(builder, y))}, 0, 0});
  EXPECT_EQ(dump_dot(std::move(builder).build(), {.title = "two"}, "two.dot"),
            R"GOLD(// dot -Tsvg two.dot -o two.svg
digraph "two" {
  graph [rankdir=TB, nodesep=0.12, ranksep=0.22, compound=true, labelloc=t, labeljust=l, fontname="Helvetica", fontsize=14, label="two\l2 tasks in 2 boxes, 1 edges\l"]
  node [shape=box, style="filled", fontname="Helvetica", fontsize=10, margin="0.08,0.04", height=0.3, penwidth=1.5, color="#888888"]
  edge [color="#555555", arrowsize=0.6, fontname="Helvetica", fontsize=9]
  subgraph "cluster_mb0_forward" {
    graph [label="forward", style="rounded,filled", color="#bbbbbb", fillcolor="#fafafa"]
    subgraph "cluster_mb0_forward_L0" {
      graph [label="layer 0", style="rounded,filled", color="#dddddd", fillcolor="#f0f0f0"]
      t0 [label="up.gemm\n2×8×4", id="mb0.L0.up.fwd.gemm", class="gemm", tooltip="mb0.L0.up.fwd.gemm\ngemm m=2 n=8 k=4 trans_a=false trans_b=true accumulate=false has_bias=false\n128 flop, 224 B\nreads x 2×4 f32\nreads w 8×4 f32\nwrites y 2×8 f32", shape=box, fillcolor="#56B4E9", fontcolor="#000000"]
      t1 [label="act.gelu\n2×8", id="mb0.L0.act.fwd.gelu", class="gelu", tooltip="mb0.L0.act.fwd.gelu\ngelu n=16\n192 flop, 128 B\nupdates y 2×8 f32", shape=box, fillcolor="#009E73", fontcolor="#FFFFFF"]
    }
  }
  t0 -> t1 [tooltip="read after write of y"]
  subgraph cluster_legend {
    graph [label="legend", style=rounded, color="#bbbbbb"]
    legend [shape=plain, style="", label=<<table border="0" cellborder="0" cellspacing="2"><tr><td bgcolor="#56B4E9"><font color="#000000">GEMM</font></td></tr><tr><td bgcolor="#009E73"><font color="#FFFFFF">elementwise</font></td></tr><tr><td align="left">solid: data</td></tr></table>>]
  }
}
)GOLD");
}

TEST(DumpDot, EmptyGraphHasNoBoxes) {
  const std::string dot = dump_dot(graph::GraphBuilder().build());
  EXPECT_TRUE(contains(dot, "0 tasks in 0 boxes, 0 edges"));
  EXPECT_FALSE(contains(dot, "->"));
}

TEST(DumpDot, NamesAreEscapedAndHoldNoControlCharacters) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::TensorId x = builder.add_tensor({"x", DType::f32, {1}, graph::Role::activation});
  builder.add_task({"\"quoted\" <b>\x01& back\\slash\n", graph::Add{1}, {graph::write(graph::whole(builder, x))}});
  EXPECT_TRUE(contains(dump_dot(std::move(builder).build()), R"(id="\"quoted\" <b> &amp; back\\slash\n",)"));
}

// Forward: load writes x; f(l) reads a(l-1), writes a(l). Backward in reverse: b(l) reads a(l-1) and g(l+1), writes
// g(l) and dw(l); r(l) sums dw(l) over data ranks. Update: norm(l) of dw(l), clip, adam(l). For each micro-batch the
// gradients are added to.
graph::Graph training(int layers, int micro_batches) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](const std::string& name, graph::Role role) {
    return graph::whole(builder, builder.add_tensor({name, DType::f32, {4}, role}));
  };
  graph::Phase phase = graph::Phase::forward;
  int micro_batch = 0;
  const auto add = [&](const std::string& name, int layer, graph::Operation operation,
                       std::vector<graph::Access> accesses) {
    builder.add_task({name, std::move(operation), std::move(accesses), layer, micro_batch, phase});
  };
  std::vector<graph::View> weights, gradients, norms;
  for (int l = 0; l < layers; ++l) {
    const std::string number = std::to_string(l);
    weights.push_back(tensor("w" + number, graph::Role::parameter));
    gradients.push_back(tensor("dw" + number, graph::Role::gradient));
    norms.push_back(tensor("n" + number, graph::Role::workspace));
  }
  for (; micro_batch < micro_batches; ++micro_batch) {
    const std::string prefix = "mb" + std::to_string(micro_batch) + ".";
    phase = graph::Phase::forward;
    std::vector<graph::View> a = {tensor(prefix + "x", graph::Role::activation)};
    add(prefix + "load", -1, graph::SelectRow{1, 4}, {graph::write(a[0])});
    for (int l = 0; l < layers; ++l) {
      const std::string layer = prefix + "L" + std::to_string(l);
      a.push_back(tensor(layer + ".a", graph::Role::activation));
      add(layer + ".fwd.f", l, graph::Gemm{1, 4, 1},
          {graph::read(a[a.size() - 2]), graph::read(weights[l]), graph::write(a.back())});
    }
    phase = graph::Phase::backward;
    graph::View g = a.back();
    for (int l = layers - 1; l >= 0; --l) {
      const std::string layer = prefix + "L" + std::to_string(l);
      const graph::View next = tensor(layer + ".g", graph::Role::activation);
      const graph::Access gradient = micro_batch == 0 ? graph::write(gradients[l]) : graph::read_write(gradients[l]);
      add(layer + ".bwd.b", l, graph::Gemm{1, 4, 1}, {graph::read(g), graph::read(a[l]), graph::write(next), gradient});
      if (micro_batch + 1 == micro_batches)
        add(layer + ".bwd.r", l, graph::AllReduce{graph::Channel::data, 2, 4}, {graph::read_write(gradients[l])});
      g = next;
    }
  }
  phase = graph::Phase::update;
  micro_batch = -1;
  std::vector<graph::Access> partials;
  for (int l = 0; l < layers; ++l) {
    add("norm" + std::to_string(l), l, graph::SumSquares{4}, {graph::read(gradients[l]), graph::write(norms[l])});
    partials.push_back(graph::read(norms[l]));
  }
  const graph::View factor = tensor("factor", graph::Role::workspace);
  partials.push_back(graph::write(factor));
  add("clip", -1, graph::ClipFactor{layers, 1.0F}, partials);
  for (int l = 0; l < layers; ++l) {
    add("adam" + std::to_string(l), l, graph::AdamW{4, 0.9F, 0.95F, 1e-8F, 0.1F},
        {graph::read_write(weights[l]), graph::read(gradients[l]), graph::read(factor)});
  }
  return std::move(builder).build();
}

std::size_t boxes(const std::string& dot) {
  return testing::count_matches(dot, "\n +t[0-9]+ \\[");
}
std::size_t arrows(const std::string& dot) {
  return testing::count_matches(dot, "t[0-9]+ -> t[0-9]+ ");
}

TEST(DumpDot, SavedActivationsAreNumbersAndImpliedEdgesAreCounted) {
  // Two layers: load→f0→f1→b1→{b0, r1}, b0→r0, r→norm→clip→adam. Saved: load→b0, f0→b1. Implied besides: dw→adam by
  // norm and clip (from r), anti-dependencies f→adam and so on.
  const graph::Graph graph = training(2, 1);
  const std::string dot = dump_dot(graph);
  EXPECT_EQ(boxes(dot), 12U);
  EXPECT_EQ(arrows(dot), 12U);
  EXPECT_TRUE(has_parts(dot, {"2 from saved activations drawn as numbers", "label=\"load\\nselect_row 4\\nsaves 1\"",
                              "label=\"f\\ngemm 1×4×1\\nsaves 2\"", "label=\"b\\ngemm 1×4×1\\nuses 1\"",
                              "label=\"b\\ngemm 1×4×1\\nuses 2\"", "over data, 16 B"}));
  const std::string full = dump_dot(graph, {.reduce = false});
  EXPECT_EQ(arrows(full),
            static_cast<std::size_t>(std::count_if(graph.edges().begin(), graph.edges().end(),
                                                   [](const graph::Edge& e) { return e.distance == 0; })));
  EXPECT_FALSE(contains(full, "saves 1"));
}

TEST(DumpDot, CollectivesNameTheirGroupWhereTheGridIsKnown) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::View v = graph::whole(builder, builder.add_tensor({"v", DType::f32, {4}, graph::Role::activation}));
  builder.add_task({"v", graph::SelectRow{1, 4}, {graph::write(v)}});
  builder.add_task({"a", graph::AllReduce{graph::Channel::y, 2, 4}, {graph::read_write(v)}});
  builder.add_task({"b", graph::AllReduce{graph::Channel::world, 8, 4}, {graph::read_write(v)}});
  const graph::Graph graph = std::move(builder).build();
  EXPECT_FALSE(contains(dump_dot(graph), "group of"));
  DrawingOptions options;
  options.grid = graph::Grid{2, 2, 1, 2};
  const std::string first = dump_dot(graph, options);
  EXPECT_TRUE(has_parts(
      first, {"label=\"a\\nall_reduce over y (ranks 0, 2), 16 B\\nof v\"", "\\ny group of ranks 0, 2, one of 4\\n",
              "over world (ranks 0, 1, 2, …, 7), 16 B", "\\nworld group of ranks 0, 1, 2, 3, 4, 5, 6, 7\\n"}));
  options.rank = 5;
  EXPECT_TRUE(contains(dump_dot(graph, options), "y group of ranks 5, 7, one of 4"));
}

TEST(DumpDot, RepeatedLayersAreDrawnOnce) {
  // load, f, b, r, norms, clip, adams in a chain; from f to f and from b to b of the next layer in grey.
  const graph::Graph graph = training(5, 1);
  const std::string dot = dump_dot(graph);
  EXPECT_TRUE(has_parts(dot, {"graph [label=\"layers 0 to 4, × 5\"", "label=\"5 × adamw\\n",
                              "label=\"5 × sum_squares\\n", "5 tasks like this one, the last is mb0.L4.fwd.f\""}));
  EXPECT_EQ(boxes(dot), 7U) << dot;
  EXPECT_EQ(arrows(dot), 6U) << dot;
  EXPECT_EQ(boxes(dump_dot(graph, {.collapse = Collapse::none})), graph.tasks().size());
  EXPECT_EQ(boxes(dump_dot(training(2, 1), {.collapse = Collapse::layer})), 7U);
}

TEST(DumpDot, WhatOneLayerAloneHasIsMarked) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](std::string name) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {4}, graph::Role::activation}));
  };
  graph::View x = tensor("x");
  builder.add_task({"load", graph::SelectRow{1, 4}, {graph::write(x)}});
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "L" + std::to_string(layer) + ".";
    const graph::View y = tensor(prefix + "y");
    builder.add_task({prefix + "f", graph::GeluForward{4}, {graph::read(x), graph::write(y)}, layer});
    if (layer == 1)
      builder.add_task({prefix + "extra",
                        graph::Add{4},
                        {graph::read(y), graph::read(x), graph::write(tensor(prefix + "z"))},
                        layer});
    x = y;
  }
  const std::string dot = dump_dot(std::move(builder).build(), {.collapse = Collapse::layer});
  EXPECT_TRUE(has_parts(dot, {"label=\"extra\\nadd 4\\nlayer 1 only\"", "label=\"f\\ngelu 4\""}));
}

TEST(DumpDot, MicroBatchesAreSectionsAndCollapseWhereTheyAreTooMany) {
  const graph::Graph graph = training(3, 4);
  const std::string dot = dump_dot(graph);
  EXPECT_EQ(testing::count_matches(dot, "label=\"micro-batch [0-9], forward\""), 4U);
  EXPECT_TRUE(contains(dot, "label=\"micro-batch 3, backward\""));
  const std::string few = dump_dot(graph, {.max_boxes = 15});
  EXPECT_TRUE(contains(few, "label=\"forward, × 4: micro-batches 0 to 3\"")) << few;
  EXPECT_TRUE(contains(few, "micro-batch 3 only")) << few;  // where gradients are summed
  EXPECT_LE(boxes(few), 15U);
}

TEST(DumpDot, OnlyChosenTasksAndTheirEdgesAreDrawn) {
  const graph::Graph graph = training(2, 1);
  DrawingOptions options;
  options.only = {graph.find_task("mb0.load"), graph.find_task("mb0.L0.fwd.f")};
  const std::string dot = dump_dot(graph, options);
  EXPECT_EQ(boxes(dot), 2U);
  EXPECT_EQ(arrows(dot), 1U);
  EXPECT_TRUE(contains(dot, "2 of 12 tasks in 2 boxes")) << dot;
}

TEST(DumpDot, AMarkPointsAtItsBox) {
  const graph::Graph graph = training(3, 1);
  DrawingOptions options;
  options.marks = {{graph.find_task("mb0.L1.fwd.f"), "memory peaks here"}};
  options.remarks = {"one more line"};
  const std::string dot = dump_dot(graph, options);
  EXPECT_TRUE(has_parts(dot, {"m1 [label=\"memory peaks here\"", "m1 -> t1 ", "one more line\\l"}));
}

TEST(DumpDot, EdgesShowWhyTheyExist) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::View x = graph::whole(builder, builder.add_tensor({"x", DType::f32, {4}, graph::Role::activation}));
  const graph::View y = graph::whole(builder, builder.add_tensor({"y", DType::f32, {4}, graph::Role::activation}));
  const graph::TaskId a = builder.add_task({"a", graph::SelectRow{1, 4}, {graph::write(x)}});
  const graph::TaskId b = builder.add_task({"b", graph::SelectRow{1, 4}, {graph::read(x), graph::write(y)}});
  const graph::TaskId c = builder.add_task({"c", graph::AllReduce{graph::Channel::data, 2, 4}, {graph::write(x)}});
  const graph::TaskId d = builder.add_task({"d", graph::SelectRow{1, 4}, {graph::write(y)}});
  const graph::Graph graph = std::move(builder).build();
  const std::vector<graph::Edge> added = {
      {c, d, graph::EdgeKind::issued_before, graph::EdgeReason::policy, 0, graph::TensorId()},
      {d, a, graph::EdgeKind::completes_before, graph::EdgeReason::memory, 1, y.tensor},
  };
  const std::vector<graph::TaskId> path = {a, b};
  DrawingOptions options;
  options.added_edges = added;
  options.critical_path = path;
  options.next_step_edges = true;
  options.stream_of = [&](graph::TaskId task) {
    return task == c ? StreamStyle{"data", "#7B3294"} : StreamStyle{"compute0", "#222222"};
  };
  options.note = [&](graph::TaskId task) { return task == c ? "exposed 1 ms" : ""; };
  const std::string dot = dump_dot(graph, options);
  EXPECT_TRUE(has_parts(dot, {"t0 -> t1 [tooltip=\"read after write of x\", color=\"#CC0000\", penwidth=3]",
                              "t1 -> t2 [tooltip=\"write after read of x\", style=dashed, color=\"#222222\"",
                              "t2 -> t3 [tooltip=\"policy\", style=dotted, color=\"#7B3294\""}));
  EXPECT_TRUE(
      contains(dot, "t3 -> t0 [tooltip=\"memory reuse of y\", style=dashed, color=\"#bbbbbb\", constraint=false"));
  EXPECT_TRUE(contains(dot, edges_text(graph.edges().size(), added.size())));
  EXPECT_EQ(edges_text(680, 1), "680 edges and 1 that the plan adds");
  EXPECT_TRUE(has_parts(dot, {"shape=component", "on data\\nexposed 1 ms\"", "stream compute0"}));
  EXPECT_EQ(dot, dump_dot(graph, options));
}

}  // namespace
}  // namespace weft::inspect
