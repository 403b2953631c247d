// `weft profile` as a process: its file, which planning commands read, and its refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/messages.h"
#include "tests/tools/run_command.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class ProfileCommand : public testing::SmallStep {};

const std::vector<std::string> kShort = {"--ranks", "2", "--profile-steps", "2", "--rounds", "1"};

TEST_F(ProfileCommand, WritesWhatItPrints) {
  const json printed = figures("profile", testing::joined(kShort, {"-o", "p.json"}));
  EXPECT_EQ(read_json("p.json"), printed);
  EXPECT_EQ(printed.at("format"), "weft-profile");
  EXPECT_EQ(printed.at("grid"), (json{1, 1, 1, 2}));
  EXPECT_EQ(printed.at("threads"), 1);
  EXPECT_NE(printed.at("machine"), "");
  int collectives = 0, products = 0;
  for (const json& entry : printed.at("entries")) {
    EXPECT_GE(entry.at("ns").get<double>(), 0) << entry;
    EXPECT_EQ(entry.at("samples").get<int>() % 4, 0) << entry;  // two steps of two ranks
    EXPECT_GT(entry.at("samples").get<int>(), 0) << entry;
    const std::string signature = entry.at("signature");
    collectives += signature.starts_with("all_reduce") ? 1 : 0;
    products += signature.starts_with("gemm") ? 1 : 0;
    EXPECT_EQ(entry.at("beside_ns").get<double>() > 0, signature.starts_with("all_reduce")) << entry;
  }
  EXPECT_GE(collectives, 2);
  EXPECT_GE(products, 5);
}

// Simulating policy serial adds up the times that were measured under policy serial.
TEST_F(ProfileCommand, PlanningCommandsReadIt) {
  ASSERT_EQ(weft("profile", testing::joined(kShort, {"-o", "p.json", "--quiet"})).exit_code, 0);
  const json profile = read_json("p.json");
  const json report = figures("compare", {"--ranks", "2", "--policies", "serial", "--profile", "p.json"});
  double sum = 0;
  for (const json& entry : profile.at("entries")) {
    const bool collective = entry.at("signature").get<std::string>().find("channel=") != std::string::npos;
    const double factor = collective ? 1 : profile.at("computing_factor").get<double>();
    sum += factor * entry.at("ns").get<double>() * entry.at("samples").get<double>() / 4;  // tasks of a step
  }
  EXPECT_NEAR(report.at("policies").at(0).at("step_ms").get<double>(), sum * 1e-6, 0.001 * sum * 1e-6 + 1e-3);
  const json explained = figures("explain", {"--ranks", "2", "--policy", "serial", "--profile", "p.json"});
  EXPECT_EQ(explained.at("step_ms"), report.at("policies").at(0).at("step_ms"));
}

// A message takes the time of its entry, and no computation of one micro-batch hides it.
TEST_F(ProfileCommand, OfAPipelineServesSimulations) {
  const std::vector<std::string> grid = {"--grid", "pipe=2", "--micro-batch", "4"};
  testing::succeeded(
      weft("profile", testing::joined(grid, {"--profile-steps", "2", "--rounds", "1", "-o", "p.json", "--quiet"})));
  json profile = read_json("p.json");
  EXPECT_EQ(profile.at("pipe"), 2);
  std::vector<double> steps;
  for (const double message_ns : {0.0, 1e9}) {
    for (json& entry : profile.at("entries")) {
      const std::string signature = entry.at("signature");
      if (signature.starts_with("send ")) entry.at("ns") = entry.at("beside_ns") = message_ns;
    }
    folder_.write("changed.json", profile.dump());
    const std::vector<std::string> more = {"--policy", "gpipe", "--profile", "changed.json"};
    steps.push_back(figures("simulate", testing::joined(grid, more)).at("step_seconds").get<double>());
    EXPECT_EQ(figures("explain", testing::joined(grid, more)).at("step_seconds"), steps.back());
  }
  EXPECT_NEAR(steps[1] - steps[0], 2, 0.05);  // an activation, and its gradient
}

TEST_F(ProfileCommand, ItsSlowdownsCountInSimulations) {
  ASSERT_EQ(weft("profile", testing::joined(kShort, {"-o", "p.json", "--quiet"})).exit_code, 0);
  json profile = read_json("p.json");
  for (json& entry : profile.at("entries")) {
    entry.at("cpu_ns") = 0;
    if (entry.at("beside_ns") > 0) entry.at("ns") = entry.at("beside_ns") = 1e8;
  }
  std::vector<double> contention;
  for (const double factor : {1.0, 3.0}) {
    profile["slowdowns"] = {{{"compute", "gemm"}, {"collective", "all_reduce"}, {"factor", factor}}};
    folder_.write("changed.json", profile.dump());
    const json report = figures("compare", {"--ranks", "2", "--policies", "program", "--profile", "changed.json"});
    contention.push_back(report.at("policies").at(0).at("contention_ms").get<double>());
  }
  EXPECT_NEAR(contention.at(0), 0, 1e-6);
  EXPECT_GT(contention.at(1), 1e-3);
}

TEST_F(ProfileCommand, PrintsATable) {
  const testing::CommandResult result = testing::succeeded(weft("profile", testing::joined(kShort, {"-o", "p.json"})));
  EXPECT_TRUE(
      has_parts(result.output, {"share", "spread", "core us", "samples", "gemm ", "all_reduce ", "--profile p.json"}));
  EXPECT_TRUE(has_parts(result.errors, {"step 0 of 2", "step 2 of 2", "[1/"}));
  const testing::CommandResult quiet = weft("profile", testing::joined(kShort, {"-o", "p.json", "--quiet"}));
  EXPECT_EQ(quiet.errors, "");
}

TEST_F(ProfileCommand, RefusesBeforeItMeasures) {
  expect_refused("profile", testing::joined(kShort, {"-o", "no/such/p.json"}), {"no/such"});
  expect_refused("profile", {"--profile-steps", "0"}, {"--profile-steps"});
  expect_refused("profile", {"--rounds", "0"}, {"--rounds"});
  expect_refused("profile", {"--ranks", "3"}, {"3"});
  expect_refused("profile", {"--profil-steps", "3"}, {"did you mean --profile-steps?"});
  EXPECT_FALSE(exists("profile.json"));
}

}  // namespace
}  // namespace weft::tools
