// Drawings that Graphviz can't lay out in time: every box is there, apart from the others and inside the picture.
#include "inspect/drawing/block_layout.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

/// `layers` times: two tasks beside each other and one after both.
graph::Graph layers_graph(int layers) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](std::string name) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {4}, graph::Role::activation}));
  };
  graph::View x = tensor("x");
  builder.add_task({"load", graph::SelectRow{1, 4}, {graph::write(x)}});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = "L" + std::to_string(layer) + ".";
    const graph::View a = tensor(prefix + "a"), b = tensor(prefix + "b"), c = tensor(prefix + "c");
    builder.add_task({prefix + "a\"<&>", graph::GeluForward{4}, {graph::read(x), graph::write(a)}, layer});
    builder.add_task({prefix + "b", graph::GeluForward{4}, {graph::read(x), graph::write(b)}, layer});
    builder.add_task({prefix + "c", graph::Add{4}, {graph::read(a), graph::read(b), graph::write(c)}, layer});
    x = c;
  }
  return std::move(builder).build();
}

struct Rectangle {
  double x, y, width, height;
};

std::vector<Rectangle> boxes_of(const std::string& svg) {
  // The box is the last rectangle without a mark's colour in its group; here it is the only one.
  static const std::regex box("</title><rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\"");
  std::vector<Rectangle> boxes;
  for (std::sregex_iterator it(svg.begin(), svg.end(), box), end; it != end; ++it) {
    boxes.push_back({std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]), std::stod((*it)[4])});
  }
  return boxes;
}

TEST(BlockLayout, BoxesAreApartAndInside) {
  const graph::Graph graph = layers_graph(40);
  DrawingOptions options;
  options.collapse = Collapse::none;
  const Picture picture = block_layout(Drawing(graph, options));
  const std::string svg = picture.svg();
  const std::vector<Rectangle> boxes = boxes_of(svg);
  ASSERT_EQ(boxes.size(), graph.tasks().size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Rectangle& a = boxes[i];
    EXPECT_LE(a.x + a.width, picture.width());
    EXPECT_LE(a.y + a.height, picture.height());
    for (std::size_t j = 0; j < i; ++j) {
      const Rectangle& b = boxes[j];
      const bool apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
      EXPECT_TRUE(apart) << i << " " << j;
    }
  }
  EXPECT_NE(svg.find("id=\"L3.a&quot;&lt;&amp;&gt;\" class=\"gelu\""), std::string::npos);
  EXPECT_EQ(svg, block_layout(Drawing(graph, options)).svg());
}

TEST(BlockLayout, ATaskStandsBelowWhatItWaitsFor) {
  const graph::Graph graph = layers_graph(1);
  DrawingOptions options;
  options.collapse = Collapse::none;
  const std::vector<Rectangle> boxes = boxes_of(block_layout(Drawing(graph, options)).svg());
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[1].y, boxes[2].y);
  EXPECT_GT(boxes[3].y, boxes[2].y);
}

TEST(BlockLayout, SaysWhatDotSays) {
  const graph::Graph graph = layers_graph(3);
  DrawingOptions options;
  options.title = "three layers";
  options.remarks = {"laid out in blocks"};
  options.collapse = Collapse::none;
  const std::vector<graph::TaskId> path = {graph.find_task("load"), graph.find_task("L0.b")};
  options.critical_path = path;
  options.marks = {{graph.find_task("L1.b"), "memory peaks here"}};
  options.stream_of = [](graph::TaskId) { return StreamStyle{"compute0", "#123456"}; };
  const std::string svg = block_layout(Drawing(graph, options)).svg();
  EXPECT_TRUE(has_parts(svg, {"three layers", "laid out in blocks", "10 tasks in 10 boxes", "layer 2", "forward",
                              "memory peaks here", "stream compute0", "stroke=\"#123456\"", "red: critical path"}));
}

TEST(BlockLayout, ABoxShowsTheEndOfALongName) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::View x = graph::whole(builder, builder.add_tensor({"x", DType::f32, {4}, graph::Role::activation}));
  builder.add_task({"mb0.L2.attn.qkv.weight.bwd.reduce_scatter_data",
                    graph::SelectRow{1, 4},
                    {graph::write(x)},
                    2,
                    0,
                    graph::Phase::backward});
  const graph::Graph graph = std::move(builder).build();
  DrawingOptions options;
  options.collapse = Collapse::none;
  const std::string svg = block_layout(Drawing(graph, options)).svg();
  EXPECT_NE(svg.find(">attn.qkv.weight RS data</text>"), std::string::npos) << svg;
}

TEST(BlockLayout, NothingIsAPicture) {
  const graph::Graph graph = graph::GraphBuilder().build();
  const DrawingOptions options;
  EXPECT_TRUE(block_layout(Drawing(graph, options)).svg().ends_with("</svg>\n"));
}

}  // namespace
}  // namespace weft::inspect
