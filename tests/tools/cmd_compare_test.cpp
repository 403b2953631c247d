// `weft compare` as a process: its output agrees with itself, simulated and measured; and its refusals.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class CompareCommand : public testing::SmallStep {
 protected:
  json compare(const std::vector<std::string>& more) const { return figures("compare", more); }

  static std::map<std::string, json> by_policy(const json& report) {
    std::map<std::string, json> policies;
    for (const json& entry : report.at("policies")) policies[entry.at("policy").get<std::string>()] = entry;
    return policies;
  }
};

void expect_consistent(const json& report) {
  const double least = report.at("bound_ms"), tiny = 1e-5;  // times are whole nanoseconds
  const json* serial = nullptr;
  for (const json& entry : report.at("policies")) {
    if (entry.at("policy") == "serial") serial = &entry;
  }
  for (const json& entry : report.at("policies")) {
    SCOPED_TRACE(entry.at("policy").get<std::string>());
    ASSERT_FALSE(entry.contains("refused")) << entry;
    const double step = entry.at("step_ms");
    double bound = 0;
    for (const json& value : entry.at("bounds_ms")) bound = std::max(bound, value.get<double>());
    if (entry.at("policy") == "program") {
      EXPECT_NEAR(bound, least, 1e-9);
    }
    EXPECT_GE(step, bound - tiny);
    EXPECT_NEAR(entry.at("gap").get<double>(), step / bound - 1, 1e-9);
    const double exposed = entry.at("exposed_ms"), communication = entry.at("communication_ms");
    EXPECT_LE(exposed, communication + tiny);
    EXPECT_LE(exposed, step);
    EXPECT_NEAR(entry.at("overlap").get<double>(), 1 - exposed / communication, 1e-9);
    double on_channels = 0;
    for (const json& channel : entry.at("channels")) {
      EXPECT_LE(channel.at("exposed_ms").get<double>(), channel.at("busy_ms").get<double>() + tiny);
      on_channels += channel.at("exposed_ms").get<double>();
    }
    EXPECT_GE(on_channels, exposed - tiny);
    EXPECT_GT(entry.at("memory_bytes").get<std::int64_t>(), 0);
    if (serial != nullptr) {
      const double serial_ms = serial->at("step_ms");
      EXPECT_NEAR(entry.at("speed_up").get<double>(), serial_ms / step, 1e-9);
      EXPECT_NEAR(entry.at("hidden").get<double>(), (serial_ms - step) / (serial_ms - bound), 1e-9);
    }
  }
}

TEST_F(CompareCommand, AllPoliciesOnEveryMachine) {
  for (const char* machine : {"laptop", "dgx-h100", "frontier"}) {
    SCOPED_TRACE(machine);
    const json report = compare({"--grid", "x=2,data=2", "--machine", machine});
    expect_consistent(report);
    const auto policies = by_policy(report);
    for (const std::string& name : policy::graph_policy_names()) EXPECT_TRUE(policies.contains(name)) << name;
    EXPECT_TRUE(policies.contains("axonn:oar=off,ors=off,oag=off"));
    EXPECT_TRUE(policies.contains("axonn:oar=on,ors=on,oag=off"));
    EXPECT_EQ(policies.at("serial").at("overlap"), 0.0);
    EXPECT_EQ(policies.at("serial").at("speed_up"), 1.0);
    EXPECT_LT(policies.at("program").at("step_ms").get<double>(), policies.at("serial").at("step_ms").get<double>());
    EXPECT_TRUE(has(report.at("costs").get<std::string>(), machine)) << report.at("costs");
  }
}

// Where nothing contends, the simulator has the portfolio's own yardstick, so no member's step is shorter than the
// portfolio's. Its members are all policies that order the same graph, except the longer search.
TEST_F(CompareCommand, ThePortfolioIsTheBestOfItsGraph) {
  std::string text = testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/machines/laptop.toml");
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"laptop\"", "\"calm\"");
  replace("shared-cores = true", "shared-cores = false");
  folder_.write("calm.toml", text);
  const json report = compare({"--ranks", "2", "--micro-batch", "1", "--machine", "calm.toml"});
  expect_consistent(report);
  const auto policies = by_policy(report);
  const json& best = policies.at("portfolio");
  for (const auto& [name, entry] : policies) {
    EXPECT_NEAR(entry.at("contention_ms").get<double>(), 0, 1e-5) << name;
    if (name == "anneal" || entry.at("bounds_ms") != best.at("bounds_ms")) continue;  // another graph: rewritten
    EXPECT_LE(best.at("step_ms").get<double>(), entry.at("step_ms").get<double>() + 1e-4) << name;
  }
}

TEST_F(CompareCommand, PoliciesByNameWithParametersRewritesAndStreams) {
  const json report = compare({"--ranks", "2", "--policies", "serial", "program:depth=1", "random:seed=3", "--streams",
                               "2", "--rewrites", "ar-to-rs-ag"});
  expect_consistent(report);
  ASSERT_EQ(report.at("policies").size(), 3U);
  EXPECT_EQ(report.at("policies").at(1).at("policy"), "program:depth=1");
}

TEST_F(CompareCommand, PrintsATableAndWritesItToAFile) {
  const testing::CommandResult result = testing::succeeded(
      weft("compare", {"--ranks", "2", "--policies", "serial", "program", "-o", "table.md", "--markdown", "--quiet"}));
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(
      has_parts(result.output, {"custom, 2 ranks (x=1,y=1,z=1,data=2), 4 sequences of 16 tokens a step, on laptop\n",
                                "| serial ", "No order can take less than"}));
  EXPECT_EQ(read("table.md"), result.output);
}

TEST_F(CompareCommand, AFileIsWhatItsNameSays) {
  const json printed = compare(
      {"--ranks", "2", "--policies", "serial", "program", "-o", "a.csv", "-o", "a.md", "-o", "a.json", "-o", "kept"});
  EXPECT_EQ(read_json("a.json"), printed);
  const std::string csv = read("a.csv");
  EXPECT_TRUE(csv.starts_with("policy,step_ms,")) << csv;
  EXPECT_TRUE(has(csv, "\nprogram," + printed.at("policies").at(1).at("step_ms").dump() + ",")) << csv;
  EXPECT_TRUE(has(read("a.md"), "\n\n| policy "));
  EXPECT_TRUE(exists("kept/comparison.json"));
  expect_refused("compare", {"--policies", "serial", "-o", "a.txt"}, {"a.txt", ".csv, .md, .json or .svg"});
  expect_refused("compare", {"--policies", "serial", "--ranks", "2", "--measure", "-o", "new.csv", "-o", "a.txt"},
                 {"a.txt", ".csv, .md, .json or .svg"});
  EXPECT_FALSE(exists("new.csv"));
}

TEST_F(CompareCommand, PlansUnderMemoryLimits) {
  const json report = compare({"--grid", "x=2", "--micro-batch", "1", "--policies", "program", "lhs", "--pareto"});
  const json& front = report.at("pareto");
  ASSERT_GE(front.size(), 1U);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GT(front[i].at("memory_bytes").get<std::int64_t>(), front[i - 1].at("memory_bytes").get<std::int64_t>());
    EXPECT_LT(front[i].at("step_ms").get<double>(), front[i - 1].at("step_ms").get<double>());
  }
  // Nothing in it is beaten by a plan without a limit.
  for (const json& entry : report.at("policies")) {
    bool reached = false;
    for (const json& plan : front) {
      reached = reached || (plan.at("memory_bytes") <= entry.at("memory_bytes") &&
                            plan.at("step_ms").get<double>() <= entry.at("step_ms").get<double>());
    }
    EXPECT_TRUE(reached) << entry;
  }
}

TEST_F(CompareCommand, NoiseAddsColumns) {
  const json report = compare({"--ranks", "2", "--policies", "serial", "program", "--noise", "0.2"});
  expect_consistent(report);
  for (const json& entry : report.at("policies")) {
    const json& disturbed = entry.at("disturbed");
    EXPECT_GT(disturbed.at("median_ms"), 0);
    EXPECT_GE(disturbed.at("p95_ms"), disturbed.at("median_ms"));
    EXPECT_GE(disturbed.at("slow_rank_ms"), entry.at("step_ms"));
  }
  const testing::CommandResult table =
      weft("compare", {"--ranks", "2", "--policies", "serial", "--noise", "0.1", "--quiet"});
  EXPECT_TRUE(has(table.output, "95th % ms")) << table.output;
  expect_refused("compare", {"--policies", "serial", "--noise", "-1"}, {"--noise"});
}

/// Of three measured steps; the keys' unit is "ms" or "seconds".
void expect_measured(const json& policy, const std::string& unit) {
  const json& measured = policy.at("measured");
  const auto time = [&](const char* key) { return measured.at(std::string(key) + "_" + unit).get<double>(); };
  EXPECT_EQ(measured.at("steps"), 3);
  EXPECT_GT(time("median"), 0);
  EXPECT_LE(time("lower_quartile"), time("median"));
  EXPECT_GE(time("upper_quartile"), time("median"));
  EXPECT_NEAR(measured.at("simulated_error").get<double>(),
              policy.at("step_" + unit).get<double>() / time("median") - 1, 1e-9);
}

TEST_F(CompareCommand, MeasuresWhatItSimulates) {
  const json report = compare({"--ranks", "2", "--policies", "serial", "program", "ddp-bucket", "--measure",
                               "--measured-rounds", "3", "--profile-steps", "2"});
  expect_consistent(report);
  EXPECT_TRUE(has(report.at("costs").get<std::string>(), "profile of ")) << report.at("costs");
  EXPECT_TRUE(has(report.at("costs").get<std::string>(), "on 2 ranks of 1 threads"));
  for (const json& entry : report.at("policies")) {
    const json& measured = entry.at("measured");
    expect_measured(entry, "ms");
    EXPECT_LE(measured.at("exposed_ms").get<double>(), measured.at("communication_ms").get<double>());
    if (entry.at("policy") == "serial") {
      EXPECT_EQ(measured.at("exposed_ms"), measured.at("communication_ms"));
    }
  }
  const double alike = report.at("ranked_alike");
  EXPECT_GE(alike, 0);
  EXPECT_LE(alike, 1);
}

// A policy that has no plan is told so, and the others run.
TEST_F(CompareCommand, MeasuresPipelines) {
  const std::vector<std::string> words = {"--grid", "pipe=2", "--measure", "--measured-rounds", "3"};
  const json report = compare(testing::joined(
      words, {"--profile-steps", "1", "--policies", "gpipe", "interleaved", "1f1b", "-o", "pipelines.json"}));
  EXPECT_EQ(read_json("pipelines.json"), report);
  const auto policies = by_policy(report);
  ASSERT_EQ(policies.size(), 3U);
  EXPECT_TRUE(policies.at("interleaved").contains("refused")) << "four stages of two layers";
  for (const char* name : {"gpipe", "1f1b"}) {
    expect_measured(policies.at(name), "seconds");
    const json& measured = policies.at(name).at("measured");
    ASSERT_EQ(measured.at("ranks").size(), 2U);
    for (const json& rank : measured.at("ranks")) {
      EXPECT_GT(rank.at("compute_seconds").get<double>(), 0);
      EXPECT_GE(rank.at("steady_seconds").get<double>(), 0);
      EXPECT_LE(rank.at("exposed_seconds").get<double>(), rank.at("communication_seconds").get<double>());
    }
    EXPECT_GE(measured.at("bubble_share").get<double>(), 0);
    EXPECT_LT(measured.at("bubble_share").get<double>(), 1);
  }
  // By a profile of a file, nothing but the schedules is measured.
  testing::succeeded(weft("profile", {"--grid", "pipe=2", "--profile-steps", "1", "--rounds", "1", "-o", "p.json"}));
  const testing::CommandResult by_file =
      testing::succeeded(weft("compare", testing::joined(words, {"--profile", "p.json", "--policies", "1f1b"})));
  EXPECT_EQ(by_file.errors.find("step 1 of"), std::string::npos) << by_file.errors;
  EXPECT_TRUE(has_parts(by_file.output, {"measured ms", "error %", "ranked alike"}));
}

TEST_F(CompareCommand, AProfileOfAFileAndAPolicyWithoutAPlan) {
  testing::succeeded(
      weft("profile", {"--ranks", "2", "-o", "p.json", "--profile-steps", "1", "--rounds", "1", "--quiet"}));
  ASSERT_EQ(weft("plan", {"--grid", "x=2", "-o", "other.json"}).exit_code, 0);
  const json report = compare({"--ranks", "2", "--policies", "file:other.json", "serial", "--profile", "p.json",
                               "--measure", "--measured-rounds", "2"});
  ASSERT_EQ(report.at("policies").size(), 2U);
  EXPECT_TRUE(report.at("policies").at(0).contains("refused")) << report;
  EXPECT_FALSE(report.at("policies").at(0).contains("measured"));
  EXPECT_EQ(report.at("policies").at(1).at("measured").at("steps"), 2);
  EXPECT_TRUE(has(report.at("costs").get<std::string>(), "profile of "));
}

TEST_F(CompareCommand, RefusesWhatItCannotUse) {
  folder_.write("broken.json", "{\"format\": \"weft-profile\", \"version\": 9}");
  expect_refused("compare", {"--policies", "serial", "programm"}, {"unknown policy \"programm\"", "write \"program\""});
  expect_refused("compare", {"--policies", "serial,program"},
                 {"unknown policy \"serial,program\"", "as separate words: --policies serial program"});
  expect_refused("compare", {"--policies", "axonn:oars=on"}, {"oar"});
  expect_refused("compare", {"--profile", "broken.json"}, {"broken.json has version 9"});
  expect_refused("compare", {"--streams", "0"}, {"--streams"});
  expect_refused("compare", {"--memory", "-1"}, {"--memory"});
  expect_refused("compare", {"--measured-rounds", "0"}, {"--measured-rounds"});
  expect_refused("compare", {"--policies", "serial", "-o", "no/such/folder.json"}, {"no/such"});
  expect_refused("compare", {"--measure", "--ranks", "2", "--policies", "serial", "-o", "no/such/folder.json"},
                 {"no/such"});
}

}  // namespace
}  // namespace weft::tools
