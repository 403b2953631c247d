// Graph files in place of configurations, by the built `weft`: written, planned, simulated, compared, drawn, refused.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "inspect/formats/graph_file.h"
#include "tests/graph/open_graph_sample.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;
std::string text_of(const graph::OpenGraph& graph) {
  std::string text;
  inspect::write_graph(graph, [&](std::string_view piece) { text += piece; });
  return text;
}

class OpenGraphCommand : public testing::WeftFolder {
 protected:
  OpenGraphCommand() { inspect::write_graph_file(folder_.path("s.graph.json"), testing::sample_open_graph()); }

  double step_seconds(const Words& words) const { return object_of(words).at("step_seconds").get<double>(); }
};

TEST_F(OpenGraphCommand, IsSimulated) {
  EXPECT_TRUE(has_parts(
      output({"simulate", "s.graph.json", "-o", "t.json.gz"}),
      {"step of a rank of sample (2 of 2 ranks), policy program: 6 tasks", "2.4 us", "tp", "thread 1", "stream 11"}));
  const json figures = object_of({"simulate", "s.graph.json", "--policy", "serial"});
  EXPECT_DOUBLE_EQ(figures.at("step_seconds"), 3.51e-6);
  EXPECT_DOUBLE_EQ(figures.at("exposed_seconds"), 1.2e-6);
  EXPECT_TRUE(has_parts(output({"timeline", "t.json.gz"}), {"thread 1", "compute0"}));
}

TEST_F(OpenGraphCommand, IsPlannedReplayedAndExplained) {
  output({"plan", "s.graph.json", "--policy", "lhs", "-o", "p.json"});
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--policy", "file:p.json"}),
                   step_seconds({"simulate", "s.graph.json", "--policy", "lhs"}));
  EXPECT_TRUE(has_parts(output({"explain", "s.graph.json", "--all"}), {"all_reduce on tp"}));
}

// They order the stages of pipelines; on one class they would be another name for `program`.
TEST_F(OpenGraphCommand, PoliciesOfPipelinesAreRefusedForOneClass) {
  for (const char* policy : {"1f1b", "gpipe", "zb-h1", "interleaved", "pipe-list", "pipe-search", "dualpipe-v"}) {
    expect_refusal({"simulate", "s.graph.json", "--policy", policy}, {policy, "one class", "program"});
  }
  const json figures = object_of({"compare", "s.graph.json", "--policies", "program", "1f1b"});
  EXPECT_FALSE(figures.at("policies").at(0).contains("refused"));
  EXPECT_TRUE(figures.at("policies").at(1).contains("refused"));
}

TEST_F(OpenGraphCommand, PoliciesAreComparedAndDrawn) {
  const json figures = object_of({"compare", "s.graph.json", "--policies", "recorded", "serial", "program"});
  EXPECT_EQ(figures.at("policies").size(), 3U);
  output({"report", "s.graph.json", "--policies", "serial", "program", "-o", "r.html"});
  output({"graph", "s.graph.json", "-o", "g.svg"});
  EXPECT_TRUE(testing::contains(read("g.svg"), "over tp"));
  EXPECT_TRUE(testing::contains(read("r.html"), "thread 1"));
  EXPECT_TRUE(has_parts(output({"timeline", "s.graph.json", "--compare", "serial", "program"}),
                        {"policy serial: step 3.5 us", "policy program: step 2.4 us"}));
}

TEST_F(OpenGraphCommand, AConfigurationsStepIsTheSameProblem) {
  const Words step = {"--model", "tiny", "--model.layers", "2", "--grid", "x=2,data=2", "--machine", "dgx-h100"};
  output(testing::joined({"graph", "-o", "step.graph.json.gz"}, step));
  for (const char* policy : {"program", "serial", "critical-path", "lhs", "random"}) {
    const double own = step_seconds(testing::joined({"simulate", "--policy", policy}, step));
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
  expect_refusal({"explain", "s.graph.json", "--scale", "gem=2"}, {"--scale gem: no"});
  expect_refusal({"compare", "s.graph.json", "--scale", "gemm"}, {"--scale gemm", "factor"});
}

TEST_F(OpenGraphCommand, RecordedOrderIsKeptAsFarAsAsked) {
  inspect::write_graph_file(folder_.path("f.graph.json"), testing::sharded_step());
  const auto figures = [&](const Words& more) {
    return object_of(testing::joined({"compare", "f.graph.json", "--policies", "recorded", "lhs"}, more));
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
  EXPECT_TRUE(has_parts(output({"compare", "f.graph.json", "--keep-order", "computations", "--policies", "lhs"}),
                        {"order of collectives isn't kept", "at best", "0.40"}));
  EXPECT_TRUE(has_parts(output({"simulate", "f.graph.json", "--keep-order", "none"}),
                        {"no recorded order of streams is kept", "600.0 us", "+0.0 %"}));
  expect_refusal({"simulate", "f.graph.json", "--keep-order", "some"}, {"--keep-order"});
}

TEST_F(OpenGraphCommand, RecordedOrderIsNoDependency) {
  inspect::write_graph_file(folder_.path("f.graph.json"), testing::sharded_step());
  const auto causes = [&](const Words& more) {
    std::map<std::string, std::string> out;
    const json explained = object_of(testing::joined({"explain", "f.graph.json"}, more));
    for (const json& each : explained.at("collectives")) out[each.at("name")] = each.at("cause");
    return out;
  };
  auto kept = causes({}), moved = causes({"--keep-order", "computations"});
  EXPECT_EQ(kept["all_gather#1"], "queued");
  EXPECT_EQ(kept["reduce_scatter#2"], "data_dependency");
  EXPECT_EQ(moved["all_gather#1"], "queued");
  EXPECT_TRUE(has_parts(output({"explain", "f.graph.json", "--keep-order", "computations", "--all"}),
                        {"another order gains at most 0.200 ms", "issue it before", "isn't kept"}))
      << "a remedy that the recorded order forbids";
}

TEST_F(OpenGraphCommand, BandwidthsAreScaled) {
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--bandwidth", "2"}), 1e-9 * (10 + 1000 + 800 + 300));
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--bandwidth", "t*=0.5"}),
                   1e-9 * (10 + 1000 + 2400 + 200));
  expect_refusal({"explain", "s.graph.json", "--bandwidth", "dp=2"}, {"--bandwidth dp", "tp"});
  expect_refusal({"compare", "s.graph.json", "--bandwidth", "tp=0"}, {"--bandwidth tp=0"});
  expect_refusal({"simulate", "--model", "tiny", "--bandwidth", "2"}, {"without a graph file"});
  output({"report", "s.graph.json", "--machine", "laptop", "--bandwidth", "2", "-o", "b.html"});
  const std::string page = read("b.html");
  EXPECT_TRUE(has_parts(page, {"on laptop", "the bandwidth of all channels"}));
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
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json"}), 3.41e-6) << "the first waits for the second";
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--class", "first"}), 2.41e-6);
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--class", "second"}), 3.41e-6);
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--class", "1"}), 3.41e-6);
  expect_refusal({"simulate", "two.graph.json", "--class", "third"}, {"--class third", "first, second"});
  for (const char* command : {"explain", "timeline", "compare"}) output({command, "two.graph.json"});
  output({"plan", "two.graph.json", "-o", "two.json"});
  EXPECT_DOUBLE_EQ(step_seconds({"simulate", "two.graph.json", "--policy", "file:two.json"}), 3.41e-6);
  output({"report", "two.graph.json", "-o", "two.html"});
}

TEST_F(OpenGraphCommand, IsComparedInAFolder) {
  const json printed = object_of({"compare", "s.graph.json", "--policies", "serial", "program", "--scale",
                                  "all_reduce=2", "--streams", "1", "-o", "kept"});
  const json kept = read_json("kept/comparison.json");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(kept.at("comparison").at("policies").at(i).at("step_ms"),
                     printed.at("policies").at(i).at("step_ms"));
  }
  EXPECT_EQ(text_of(inspect::read_graph_file(folder_.path("kept/step.graph.json.gz"))),
            text_of(testing::sample_open_graph()));
  EXPECT_FALSE(exists("kept/config.toml"));
  output({"report", "kept", "-o", "kept.html"});
  const std::string page = read("kept.html");
  EXPECT_TRUE(has_parts(page, {"policies compared", "thread 1", "Gain by collective, against serial"}));
  // What the folder keeps repeats the comparison.
  Words again = {"compare", "kept/step.graph.json.gz", "--policies", "serial", "program"};
  for (const json& word : kept.at("graph_flags")) again.push_back(word);
  EXPECT_EQ(object_of(again).at("policies").at(1).at("step_ms"), printed.at("policies").at(1).at("step_ms"));
  EXPECT_NE(
      object_of({"compare", "s.graph.json", "--policies", "serial", "program"}).at("policies").at(1).at("step_ms"),
      printed.at("policies").at(1).at("step_ms"));
}

/// The step takes 2.41 us: two decimals of a millisecond would be 0.
TEST_F(OpenGraphCommand, HasTheBoundOfOnePolicyInItsReport) {
  const json compared = object_of({"compare", "s.graph.json", "--policies", "program"});
  const double bound = compared.at("bound_ms");
  EXPECT_GT(bound, 0.002);
  const std::string table = output({"compare", "s.graph.json", "--policies", "program"});
  EXPECT_NEAR(number_after(table, "No order can take less than "), bound, 0.001 * bound);
  for (const Words& policies : {Words{}, Words{"--policies", "program"}}) {
    output(testing::joined({"report", "s.graph.json", "-o", "one.html"}, policies));
    EXPECT_NEAR(number_after(read("one.html"), "configured step takes less than "), bound, 0.001 * bound);
  }
}

TEST_F(OpenGraphCommand, ReplacesItsOwnFolderAlone) {
  output({"compare", "s.graph.json", "--policies", "serial", "-o", "kept"});
  output({"compare", "s.graph.json", "--policies", "program", "-o", "kept"});
  EXPECT_FALSE(exists("kept/trace_1.json"));
  folder_.write("mine/notes.txt", "mine");
  expect_refusal({"compare", "s.graph.json", "-o", "mine"}, {"mine holds other files"});
}

TEST_F(OpenGraphCommand, ASlowRankHoldsUpItsGroup) {
  // On rank 0 up takes 2000 and other 1600, and the update 400.
  for (const char* slow : {"2", "0=2", "1=2"}) {
    EXPECT_DOUBLE_EQ(step_seconds({"simulate", "s.graph.json", "--slow-rank", slow}), 1e-9 * (10 + 2000 + 1600 + 400));
  }
  expect_refusal({"simulate", "s.graph.json", "--slow-rank", "2=2"}, {"rank 2 isn't in the step", "0 to 1"});
  EXPECT_NE(step_seconds({"simulate", "s.graph.json", "--noise", "0.1"}), 2.41e-6);
  object_of({"compare", "s.graph.json", "--policies", "serial", "--noise", "0.1"});
}

TEST_F(OpenGraphCommand, RefusesFlagsThatNeedAModel) {
  expect_refusal({"simulate", "s.graph.json", "--grid", "x=2"}, {"--grid with a graph file", "leave --grid out"});
  expect_refusal({"compare", "s.graph.json", "--set", "model.layers=3"}, {"--set model.layers with a graph file"});
  expect_refusal({"compare", "s.graph.json", "--measure"}, {"--measure"});
  expect_refusal({"compare", "s.graph.json", "-o", "no/such/kept"}, {"no/such"});
  expect_refusal({"graph", "s.graph.json", "--kind", "eval"}, {"--kind eval"});
  expect_refusal({"simulate", "s.graph.json", "--policy", "programm"}, {"programm"});
  expect_refusal({"simulate", "no.graph.json"}, {"no.graph.json"});
  expect_refusal({"simulate", "--model", "tiny", "--class", "a"}, {"--class without"});
}

}  // namespace
}  // namespace weft::tools
