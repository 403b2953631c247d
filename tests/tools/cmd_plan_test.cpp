// `weft plan` as a process: its file is replayed bit by bit; and its refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class PlanCommand : public testing::SmallStep {
 protected:
  std::vector<double> losses(const std::string& policy, const std::string& folder,
                             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--grid", grid_,     "--policy",  policy, "--steps",       "4", "--run-dir",
                                      folder,   "--quiet", "--dropout", "0.1",  "--micro-batch", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandResult result = weft("train", words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::vector<double> values;
    std::istringstream lines(testing::TemporaryFolder::read(folder_.path(folder + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json metrics = json::parse(line);
      if (metrics.contains("loss")) values.push_back(metrics.at("loss").get<double>());
    }
    EXPECT_EQ(values.size(), 4U);
    return values;
  }
  testing::CommandResult plan(const std::string& policy, const std::string& output,
                              const std::vector<std::string>& more = {}) const {
    return weft("plan", testing::joined({"--grid", grid_, "--policy", policy, "-o", output, "--dropout", "0.1",
                                         "--micro-batch", "1"},
                                        more));
  }
  std::string fingerprint(const std::string& policy) const {
    const testing::CommandResult result = weft("train", {"--grid", grid_, "--policy", policy, "--dropout", "0.1",
                                                         "--micro-batch", "1", "--dry-run", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output).at("plans").at("train").at("fingerprint").get<std::string>();
  }

  std::string grid_ = "x=2";
};

TEST_F(PlanCommand, ItsFileIsReplayed) {
  const testing::CommandResult result = plan("axonn", "plan.json");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(testing::has_parts(result.output, {"plan.json: ", "policy axonn"}));
  const json file = json::parse(testing::TemporaryFolder::read(folder_.path("plan.json")));
  EXPECT_EQ(file.at("format"), "weft-plan");
  EXPECT_EQ(file.at("policy"), "axonn");
  EXPECT_GT(file.at("sequence").size(), 100U);
  EXPECT_EQ(fingerprint("file:plan.json"), fingerprint("axonn"));
  EXPECT_NE(fingerprint("file:plan.json"), fingerprint("serial"));
  EXPECT_EQ(losses("file:plan.json", "replayed"), losses("axonn", "original"));
}

// A policy's own rewrites travel with its file.
TEST_F(PlanCommand, RewritesAreReplayedToo) {
  grid_ = "data=2";
  ASSERT_EQ(plan("ddp-bucket", "plan.json").exit_code, 0);
  const json file = json::parse(testing::TemporaryFolder::read(folder_.path("plan.json")));
  EXPECT_TRUE(has(file.at("rewrites").get<std::string>(), "bucket=")) << file.at("rewrites");
  EXPECT_EQ(losses("file:plan.json", "replayed"), losses("program", "original"));
}

// Without a limit a step takes 312 KiB.
TEST_F(PlanCommand, RewritesThatFitTheMemoryAreToldAndReplayed) {
  const std::vector<std::string> limit = {"--memory", "300KiB"};
  const testing::CommandResult result = plan("portfolio:budget=4", "plan.json", limit);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(has(result.output, "rewrites chosen to fit the memory: recompute=0\n")) << result.output;
  const json file = json::parse(testing::TemporaryFolder::read(folder_.path("plan.json")));
  EXPECT_EQ(file.at("rewrites"), "recompute=0");
  for (const json& task : file.at("sequence")) {
    EXPECT_TRUE(has(task.at("reason").get<std::string>(), " after recompute=0 (")) << task;
  }
  const std::vector<double> expected = losses("program", "original");
  EXPECT_EQ(losses("file:plan.json", "replayed", limit), expected);
  EXPECT_EQ(losses("portfolio:budget=4", "planned", limit), expected);
  std::vector<std::string> words = {"--grid", grid_,      "--policy", "anneal:iterations=2", "--dropout",
                                    "0.1",    "--memory", "300KiB",   "--micro-batch",       "1"};
  for (const char* command : {"simulate", "explain"}) {
    EXPECT_TRUE(figures(command, words).at("rewrites_for_memory").get<std::string>().starts_with("recompute"));
    EXPECT_TRUE(has(weft(command, words).output, "chosen by anneal:iterations=2 to fit the memory")) << command;
  }
  words.emplace_back("--dry-run");
  EXPECT_EQ(figures("train", words).at("rewrites_for_memory"), "recompute=0");
  EXPECT_TRUE(has(weft("train", words).output, "recompute=0, chosen by anneal:iterations=2 to fit the memory"));
}

TEST_F(PlanCommand, EqualRunsWriteEqualFiles) {
  for (const char* policy : {"serial", "lhs", "random", "anneal"}) {
    ASSERT_EQ(plan(policy, "a.json").exit_code, 0);
    ASSERT_EQ(plan(policy, "b.json").exit_code, 0);
    EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("a.json")),
              testing::TemporaryFolder::read(folder_.path("b.json")))
        << policy;
  }
}

TEST_F(PlanCommand, RefusesWhatItCannotUse) {
  ASSERT_EQ(plan("program", "plan.json").exit_code, 0);
  folder_.write("cut.json", testing::TemporaryFolder::read(folder_.path("plan.json")).substr(0, 1000));
  expect_refused("plan", {"--policy", "axon"}, {"unknown policy \"axon\"", "write \"axonn\""});
  expect_refused("plan", {"-o", "no/such/plan.json"}, {"no/such"});
  expect_refused("plan", {"--rewrites", "bucke"}, {"bucket"});
  expect_refused("plan", {"--grid", "x=3"}, {"x"});
  for (const char* command : {"train", "simulate", "explain"}) {
    SCOPED_TRACE(command);
    expect_refused(command, {"--ranks", "2", "--policy", "file:plan.json"}, {"plan.json"});
    expect_refused(command, {"--ranks", "2", "--policy", "file:cut.json"}, {"cut.json"});
    expect_refused(command, {"--ranks", "2", "--policy", "file:missing.json"}, {"missing.json"});
  }
}

}  // namespace
}  // namespace weft::tools
