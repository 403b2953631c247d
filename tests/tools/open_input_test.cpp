// Graph files in place of configurations, by the built `weft`: written, planned, simulated, compared, drawn, refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/formats/graph_file.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/graph/open_graph_sample.h"
#include "tests/graph/sharded_step.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string text_of(const graph::OpenGraph& graph) {
  std::string text;
  inspect::write_graph(graph, [&](std::string_view piece) { text += piece; });
  return text;
}

class OpenGraphCommand : public ::testing::Test {
 protected:
  OpenGraphCommand() { inspect::write_graph_file(folder_.path("s.graph.json"), testing::sample_open_graph()); }

  testing::CommandResult weft(const Words& words) const { return testing::run_weft(words, folder_.path().string()); }
  std::string output(const Words& words) const {
    const testing::CommandResult result = weft(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  }
  std::string refused(const Words& words) const {
    const testing::CommandResult result = weft(words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    return result.errors;
  }
  double step_seconds(Words words) const {
    words.emplace_back("--json");
    return json::parse(output(words)).at("step_seconds").get<double>();
  }
  testing::TemporaryFolder folder_;
};

TEST_F(OpenGraphCommand, IsSimulated) {
  EXPECT_TRUE(testing::has_parts(
      output({"simulate", "s.graph.json", "-o", "t.json.gz"}),
      {"step of a rank of sample (2 of 2 ranks), policy program: 6 tasks", "2.4 us", "tp", "thread 1", "stream 11"}));
  const json figures = json::parse(output({"simulate", "s.graph.json", "--json", "--policy", "serial"}));
  EXPECT_DOUBLE_EQ(figures.at("step_seconds"), 3.51e-6);
  EXPECT_DOUBLE_EQ(figures.at("exposed_seconds"), 1.2e-6);
  EXPECT_TRUE(testing::has_parts(output({"timeline", "t.json.gz"}), {"thread 1", "compute0"}));
}

TEST_F(OpenGraphCommand, IsPlannedReplayedAndExplained) {
  output({"plan", "s.graph.json", "--policy", "lhs", "-o", "p.json"});
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--policy", "file:p.json"}),
                   step_seconds({"simulate", "s.graph.json", "--policy", "lhs"}));
  EXPECT_TRUE(testing::has_parts(output({"explain", "s.graph.json"}), {"all_reduce on tp"}));
}

TEST_F(OpenGraphCommand, PoliciesAreComparedAndDrawn) {
  const json figures =
      json::parse(output({"compare", "s.graph.json", "--policies", "recorded", "serial", "program", "--json"}));
  EXPECT_EQ(figures.at("policies").size(), 3U);
  output({"report", "s.graph.json", "--policies", "serial", "program", "-o", "r.html"});
  output({"graph", "s.graph.json", "-o", "g.svg"});
  EXPECT_TRUE(testing::contains(testing::TemporaryFolder::read(folder_.path("g.svg")), "over tp"));
  EXPECT_TRUE(testing::contains(testing::TemporaryFolder::read(folder_.path("r.html")), "thread 1"));
  EXPECT_TRUE(testing::has_parts(output({"timeline", "s.graph.json", "--compare", "serial", "program"}),
                                 {"policy serial: step 3.5 us", "policy program: step 2.4 us"}));
}

TEST_F(OpenGraphCommand, AConfigurationsStepIsTheSameProblem) {
  const Words step = {"--model", "tiny", "--model.layers", "2", "--grid", "x=2,data=2", "--machine", "dgx-h100"};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  output(with({"graph", "-o", "step.graph.json.gz"}, step));
  for (const char* policy : {"program", "serial", "critical-path", "lhs", "random"}) {
    const double own = step_seconds(with({"simulate", "--policy", policy}, step));
    const double read = step_seconds({"simulate", "step.graph.json.gz", "--machine", "dgx-h100", "--policy", policy});
    EXPECT_NEAR(read, own, 1e-9 * own) << policy;
  }
}

TEST_F(OpenGraphCommand, CostsAreScaled) {
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--scale", "all_reduce=0.5", "--scale", "upd*=2"}),
                   1e-9 * (10 + 1000 + 800 + 400));
  const Words tiny = {"simulate", "--model", "tiny", "--model.layers", "1", "--policy", "serial", "--scale", "*=3"};
  const Words plain(tiny.begin(), tiny.end() - 2);
  EXPECT_NEAR(step_seconds(tiny), 3 * step_seconds(plain), 1e-9 * step_seconds(tiny));
  EXPECT_TRUE(testing::has_parts(refused({"explain", "s.graph.json", "--scale", "gem=2"}), {"--scale gem: no"}));
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "--scale", "gemm"}), {"--scale gemm", "factor"}));
}

TEST_F(OpenGraphCommand, RecordedOrderIsKeptAsFarAsAsked) {
  inspect::write_graph_file(folder_.path("f.graph.json"), testing::sharded_step());
  const auto figures = [&](const Words& more) {
    return json::parse(
        output(testing::joined({"compare", "f.graph.json", "--json", "--policies", "recorded", "lhs"}, more)));
  };
  const auto step_us = [](const json& all, std::size_t policy) {
    return 1e3 * all.at("policies").at(policy).at("step_ms").get<double>();
  };
  const json kept = figures({}), moved = figures({"--keep-order", "computations"}),
             all = figures({"--keep-order", "none"});
  for (const json* each : {&kept, &moved, &all}) EXPECT_NEAR(step_us(*each, 0), 600, 0.01) << "as recorded";
  EXPECT_NEAR(step_us(kept, 1), 600, 0.01);
  EXPECT_NEAR(step_us(moved, 1), 400, 0.01);
  EXPECT_NEAR(step_us(all, 1), 400, 0.01);
  EXPECT_EQ(kept.at("summation_note"), "");
  EXPECT_TRUE(
      testing::has_parts(output({"compare", "f.graph.json", "--keep-order", "computations", "--policies", "lhs"}),
                         {"order of collectives isn't kept", "at best", "0.40"}));
  EXPECT_TRUE(testing::has_parts(output({"simulate", "f.graph.json", "--keep-order", "none"}),
                                 {"no recorded order of streams is kept", "600.0 us", "+0.0 %"}));
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "f.graph.json", "--keep-order", "some"}), {"--keep-order"}));
}

TEST_F(OpenGraphCommand, RecordedOrderIsNoDependency) {
  inspect::write_graph_file(folder_.path("f.graph.json"), testing::sharded_step());
  const auto causes = [&](const Words& more) {
    Words words = {"explain", "f.graph.json", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    std::map<std::string, std::string> out;
    const json explained = json::parse(output(words));
    for (const json& each : explained.at("collectives")) out[each.at("name")] = each.at("cause");
    return out;
  };
  auto kept = causes({}), moved = causes({"--keep-order", "computations"});
  EXPECT_EQ(kept["all_gather#1"], "queued");
  EXPECT_EQ(kept["reduce_scatter#2"], "data_dependency");
  EXPECT_EQ(moved["all_gather#1"], "queued");
  EXPECT_TRUE(testing::has_parts(output({"explain", "f.graph.json", "--keep-order", "computations"}),
                                 {"issue it before", "isn't kept"}))
      << "a remedy that the recorded order forbids";
}

TEST_F(OpenGraphCommand, BandwidthsAreScaled) {
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--bandwidth", "2"}), 1e-9 * (10 + 1000 + 800 + 300));
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--bandwidth", "t*=0.5"}),
                   1e-9 * (10 + 1000 + 2400 + 200));
  EXPECT_TRUE(
      testing::has_parts(refused({"explain", "s.graph.json", "--bandwidth", "dp=2"}), {"--bandwidth dp", "tp"}));
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "--bandwidth", "tp=0"}), {"--bandwidth tp=0"}));
  EXPECT_TRUE(
      testing::has_parts(refused({"simulate", "--model", "tiny", "--bandwidth", "2"}), {"without a graph file"}));
  output({"report", "s.graph.json", "--machine", "laptop", "--bandwidth", "2", "-o", "b.html"});
  const std::string page = testing::TemporaryFolder::read(folder_.path("b.html"));
  EXPECT_TRUE(testing::has_parts(page, {"on laptop", "the bandwidth of all channels"}));
}

TEST_F(OpenGraphCommand, AClassIsChosen) {
  graph::OpenGraph two = testing::sample_open_graph();
  two.classes[0].ranks = {0};
  two.classes.push_back(two.classes[0]);
  two.classes[0].name = "first";
  two.classes[1].name = "second";
  two.classes[1].ranks = {1};
  two.classes[1].tasks[0].ns = 1010;
  inspect::write_graph_file(folder_.path("two.graph.json"), two);
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json"}), 2.41e-6);
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--class", "second"}), 3.41e-6);
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--class", "1"}), 3.41e-6);
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "two.graph.json", "--class", "third"}),
                                 {"--class third", "first, second"}));
}

TEST_F(OpenGraphCommand, IsComparedInAFolder) {
  const json printed = json::parse(output({"compare", "s.graph.json", "--policies", "serial", "program", "--scale",
                                           "all_reduce=2", "--streams", "1", "--json", "-o", "kept"}));
  const json kept = json::parse(testing::TemporaryFolder::read(folder_.path("kept/comparison.json")));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(kept.at("comparison").at("policies").at(i).at("step_ms"),
                     printed.at("policies").at(i).at("step_ms"));
  }
  EXPECT_EQ(text_of(inspect::read_graph_file(folder_.path("kept/step.graph.json.gz"))),
            text_of(testing::sample_open_graph()));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("kept/config.toml")));
  output({"report", "kept", "-o", "kept.html"});
  const std::string page = testing::TemporaryFolder::read(folder_.path("kept.html"));
  EXPECT_TRUE(testing::has_parts(page, {"policies compared", "thread 1", "Gain by collective, against serial"}));
  // What the folder keeps repeats the comparison.
  Words again = {"compare", "kept/step.graph.json.gz", "--policies", "serial", "program", "--json"};
  for (const json& word : kept.at("graph_flags")) again.push_back(word);
  EXPECT_EQ(json::parse(output(again)).at("policies").at(1).at("step_ms"), printed.at("policies").at(1).at("step_ms"));
  EXPECT_NE(json::parse(output({"compare", "s.graph.json", "--policies", "serial", "program", "--json"}))
                .at("policies")
                .at(1)
                .at("step_ms"),
            printed.at("policies").at(1).at("step_ms"));
}

TEST_F(OpenGraphCommand, ReplacesItsOwnFolderAlone) {
  output({"compare", "s.graph.json", "--policies", "serial", "-o", "kept"});
  output({"compare", "s.graph.json", "--policies", "program", "-o", "kept"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("kept/trace_1.json")));
  folder_.write("mine/notes.txt", "mine");
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "-o", "mine"}), {"mine holds other files"}));
}

TEST_F(OpenGraphCommand, RefusesFlagsThatNeedAModelOrOtherRanks) {
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "s.graph.json", "--grid", "x=2"}),
                                 {"--grid with a graph file", "leave --grid out"}));
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "--set", "model.layers=3"}),
                                 {"--set model.layers with a graph file"}));
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "s.graph.json", "--noise", "0.1"}), {"--noise"}));
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "--measure"}), {"--measure"}));
  EXPECT_TRUE(testing::has_parts(refused({"compare", "s.graph.json", "-o", "no/such/kept"}), {"no/such"}));
  EXPECT_TRUE(testing::has_parts(refused({"graph", "s.graph.json", "--kind", "eval"}), {"--kind eval"}));
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "s.graph.json", "--policy", "programm"}), {"programm"}));
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "no.graph.json"}), {"no.graph.json"}));
  EXPECT_TRUE(testing::has_parts(refused({"simulate", "--model", "tiny", "--class", "a"}), {"--class without"}));
}

}  // namespace
}  // namespace weft::tools
