// DOT to SVG through the installed Graphviz. Its bytes are its own affair; the test looks for the parts that must
// survive.
#include "inspect/drawing/render.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inspect/drawing/dump_dot.h"
#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

TEST(RenderSvg, DrawsNodesWithTheirIds) {
  const std::string svg = render_svg("digraph { a [id=\"first task\", tooltip=\"reads x\"] a -> b }");
  EXPECT_TRUE(has_parts(svg, {"<svg", "id=\"first task\"", "reads x"}));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(RenderSvg, SpecialCharactersOfNamesArriveOnceEscaped) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::TensorId x = builder.add_tensor({"x&lt;", DType::f32, {4}, graph::Role::activation});
  builder.add_task({"\"a\" <b> &amp; \\N c\\", graph::Add{4}, {graph::write(graph::whole(builder, x))}});
  const graph::Graph graph = std::move(builder).build();
  const DrawingOptions options;
  const std::string svg = render_svg(dump_dot(Drawing(graph, options)));
  EXPECT_NE(svg.find("<text"), std::string::npos);
  // As an attribute and as text, the page shows exactly the name: & of "&amp;" is itself escaped, \N isn't expanded.
  EXPECT_TRUE(has_parts(svg, {"id=\"&quot;a&quot; &lt;b&gt; &amp;amp; \\N c\\\"", "writes x&amp;lt; 1×4 f32"}));
}

// Width and height come after the signature and the name of the first chunk.
std::pair<std::size_t, std::size_t> size_of_png(const std::string& png) {
  const auto number = [&](std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(png.at(at + i));
    return value;
  };
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n"));
  return {number(16), number(20)};
}

TEST(RenderPng, DrawsDotAndPictures) {
  EXPECT_GT(size_of_png(render_png("digraph { a -> b }")).first, 50U);
  Picture picture(300, 200);
  picture.rect(10, 10, 100, 50, {.fill = "#56B4E9", .stroke = "#222222"});
  picture.text(20, 30, "\"quoted\" <b> & back\\slash → -");
  const auto [width, height] = size_of_png(render_png(picture));
  EXPECT_NEAR(static_cast<double>(width), 600, 4);
  EXPECT_NEAR(static_cast<double>(height), 400, 4);
}

TEST(RenderPng, LargePicturesGetFewerDots) {
  Picture picture(100, 2 * kMaxImageSide);
  picture.rect(0, 0, 100, 2 * kMaxImageSide, {.fill = "#56B4E9"});
  EXPECT_LE(size_of_png(render_png(picture)).second, kMaxImageSide + 4);
}

TEST(RenderSvg, RefusesWhatIsNoDot) {
  EXPECT_TRUE(refuses([] { render_svg("digraph { a -> "); }, {"syntax error"}));
}

TEST(RenderSvg, RefusesWhatWouldTakeMinutes) {
  std::string dot = "digraph {";
  for (std::size_t i = 0; i <= kMaxRenderNodes; ++i) dot += " n" + std::to_string(i);
  EXPECT_THROW(render_svg(dot + "}"), UserError);
  EXPECT_NE(render_svg(dot + "}", GraphLayout::blocks).find(">n1000</text>"), std::string::npos);
}

TEST(RenderSvg, BlocksAreInTheOrderOfTheText) {
  const std::string svg =
      render_svg("digraph { subgraph cluster_a { a; b; c; d } subgraph cluster_b { e } e -> a }", GraphLayout::blocks);
  const auto place = [&](const std::string& node) {
    const std::size_t x = svg.find("x=\"", svg.rfind("<text", svg.find(">" + node + "</text>"))) + 3;
    return std::pair(std::stod(svg.substr(x)), std::stod(svg.substr(svg.find("y=\"", x) + 3)));
  };
  EXPECT_EQ(place("a").second, place("b").second);
  EXPECT_LT(place("a").first, place("b").first);
  EXPECT_EQ(place("a").first, place("c").first);
  EXPECT_LT(place("a").second, place("c").second);
  EXPECT_LT(place("d").second, place("e").second);
}

TEST(RenderSvg, ThreadsTakeTurns) {
  std::vector<std::thread> threads;
  std::vector<std::string> pictures(4);
  for (std::string& picture : pictures) {
    threads.emplace_back([&picture] {
      for (int i = 0; i < 5; ++i) picture = render_svg("digraph named { a -> b -> c a -> c }");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& picture : pictures) EXPECT_TRUE(picture == pictures[0]);
  EXPECT_FALSE(pictures[0].empty());
}

// In a process of its own, because Graphviz reads its directory of plugins once.
TEST(RenderSvgDeathTest, NamesThePackageWhereThePluginsAreMissing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GVBINDIR", "/nonexistent", 1);
        try {
          render_svg("digraph { a }");
        } catch (const UserError& error) {
          fprintf(stderr, "%s\n", error.what());
          std::_Exit(7);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(7), "apt-get install graphviz");
}

}  // namespace
}  // namespace weft::inspect
