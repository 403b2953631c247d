// `weft graph` as a process: its formats, its drawings and its refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

class GraphCommand : public testing::SmallStep {
 protected:
  std::string drawn(const std::string& file, std::vector<std::string> more) const {
    more.insert(more.end(), {"-o", file});
    testing::succeeded(weft("graph", more));
    return read(file);
  }
};

TEST_F(GraphCommand, WritesEveryFormat) {
  EXPECT_TRUE(drawn("a.dot", {}).starts_with("// dot -Tsvg a.dot -o a.svg\n"));
  EXPECT_TRUE(has(drawn("a.svg", {}), "<svg"));
  EXPECT_TRUE(drawn("a.png", {}).starts_with("\x89PNG"));
  EXPECT_TRUE(drawn("a.html", {}).starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(nlohmann::json::parse(drawn("a.json", {})).at("format"), "weft.graph");
  EXPECT_TRUE(drawn("b.txt", {"--format", "dot"}).starts_with("// dot"));
}

TEST_F(GraphCommand, TellsWhatTheSimulatedStepTells) {
  const std::string dot = drawn("a.dot", {"--grid", "y=2,z=2", "--critical-path", "--collapse", "layer"});
  EXPECT_TRUE(has_parts(dot, {"memory peaks here", "memory peaks in ", "critical path ", "simulated step",
                              "on stream z_gather", "× 2", "slack", "over y (ranks 0, 1)"}));
}

TEST_F(GraphCommand, DrawsPartsOfTheGraph) {
  const std::string layer = drawn("a.dot", {"--layers", "1", "--collapse", "none"});
  EXPECT_TRUE(has(layer, " id=\"mb0.L1."));
  EXPECT_FALSE(has(layer, " id=\"mb0.L0."));
  const auto graph = nlohmann::json::parse(drawn("a.json", {}));
  const auto name = [&](std::size_t task) { return graph.at("tasks").at(task).at("name").get<std::string>(); };
  const std::string near = drawn("b.dot", {"--around", name(3), "--hops", "0", "--collapse", "none"});
  EXPECT_TRUE(has_parts(near, {"1 of ", " id=\"" + name(3) + "\""}));
  const std::string before = drawn("c.dot", {"--to", name(3), "--collapse", "none"});
  EXPECT_TRUE(has(before, " id=\"" + name(0) + "\""));
}

TEST_F(GraphCommand, LargeGraphsAreLaidOutInBlocksAndItSaysSo) {
  const testing::CommandResult result = testing::succeeded(
      weft("graph", {"--model.layers", "30", "--collapse", "none", "--grid", "x=2,y=2", "-o", "a.svg"}));
  EXPECT_TRUE(has(result.output, "laid out in blocks")) << result.output;
  EXPECT_TRUE(has(read("a.svg"), "laid out in blocks"));
}

TEST_F(GraphCommand, RefusesWhatItCannotDraw) {
  expect_refused("graph", {"--around", "mb0.L0.nothing", "-o", "a.dot"}, {"--around", "mb0.L0.nothing"});
  expect_refused("graph", {"--from", "L9", "-o", "a.dot"}, {"--from", "L9"});
  expect_refused("graph", {"--layers", "1..5", "-o", "a.dot"}, {"--layers 1..5", "0 to 1"});
  expect_refused("graph", {"--collapse", "layers", "-o", "a.dot"}, {"--collapse"});
  expect_refused("graph", {"--hops", "-1", "-o", "a.dot"}, {"--hops"});
  expect_refused("graph", {"--critical-path", "-o", "a.json"}, {"JSON holds the whole graph"});
  expect_refused("graph", {"-o", "a.pdf"}, {".dot, .svg, .png, .html, .json"});
  expect_refused("graph", {"-o", "no/such/a.svg"}, {"no/such"});
}

TEST_F(GraphCommand, DrawsARankOfAPipelineAndWritesAll) {
  const std::vector<std::string> grid = {"--grid", "pipe=2,data=2"};
  const auto of_rank = [&](const std::string& rank) {
    return drawn("rank.dot", testing::joined(grid, {"--collapse", "none", "--pipe-rank", rank}));
  };
  const std::string first = of_rank("0"), last = of_rank("1");
  EXPECT_TRUE(has(first, "embed") && has(first, " id=\"mb0.L0."));
  EXPECT_FALSE(has(first, " id=\"mb0.L1."));
  EXPECT_TRUE(has(last, " id=\"mb0.L1."));
  EXPECT_FALSE(has(last, " id=\"mb0.L0."));

  const auto file = nlohmann::json::parse(drawn("all.graph.json", grid));
  ASSERT_EQ(file.at("classes").size(), 2U);
  EXPECT_EQ(file.at("classes").at(0).at("ranks"), (nlohmann::json{0, 2}));
  EXPECT_EQ(file.at("classes").at(1).at("ranks"), (nlohmann::json{1, 3}));
  for (const auto& one : file.at("classes")) {
    int sends = 0, receives = 0;
    for (const auto& task : one.at("tasks")) {
      sends += task.value("kind", "compute") == "send" ? 1 : 0;
      receives += task.value("kind", "compute") == "receive" ? 1 : 0;
    }
    EXPECT_GT(sends, 0);
    EXPECT_EQ(sends, receives) << "an activation one way, a gradient the other";
  }
  testing::succeeded(run({"simulate", "all.graph.json", "--class", "pipe 1", "--json"}));
  expect_refused("graph", testing::joined(grid, {"--pipe-rank", "2"}), {"--pipe-rank 2", "from 0 to 1"});
  expect_refused("graph", testing::joined(grid, {"--kind", "decode"}), {"--kind decode", "pipeline stages"});
  expect_refused("graph", {"--pipe-rank", "1"}, {"--pipe-rank without pipeline stages"});
}

}  // namespace
}  // namespace weft::tools
