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
  /// The words of every command here: under the policy, on the grid.
  Words under(const std::string& policy, const Words& more) const {
    return testing::joined({"--grid", grid_, "--policy", policy, "--dropout", "0.1", "--micro-batch", "1"}, more);
  }
  std::vector<double> losses(const std::string& policy, const std::string& folder, const Words& more = {}) const {
    testing::succeeded(
        weft("train", testing::joined(under(policy, more), {"--steps", "4", "--run-dir", folder, "--quiet"})));
    std::vector<double> values;
    std::istringstream lines(read(folder + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json metrics = json::parse(line);
      if (metrics.contains("loss")) values.push_back(metrics.at("loss").get<double>());
    }
    EXPECT_EQ(values.size(), 4U);
    return values;
  }
  std::string plan(const std::string& policy, const std::string& output, const Words& more = {}) const {
    return testing::succeeded(weft("plan", testing::joined(under(policy, more), {"-o", output}))).output;
  }
  json fingerprint(const std::string& policy) const {
    return figures("train", under(policy, {"--dry-run"})).at("plans").at("train").at("fingerprint");
  }

  std::string grid_ = "x=2";
};

TEST_F(PlanCommand, ItsFileIsReplayed) {
  const std::string told = plan("axonn", "plan.json");
  EXPECT_TRUE(has_parts(told, {"plan.json: ", "policy axonn"}));
  const json file = read_json("plan.json");
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
  plan("ddp-bucket", "plan.json");
  const json file = read_json("plan.json");
  EXPECT_TRUE(has(file.at("rewrites").get<std::string>(), "bucket=")) << file.at("rewrites");
  EXPECT_EQ(losses("file:plan.json", "replayed"), losses("program", "original"));
}

// Without a limit a step takes 312 KiB.
TEST_F(PlanCommand, RewritesThatFitTheMemoryAreToldAndReplayed) {
  const std::vector<std::string> limit = {"--memory", "300KiB"};
  const std::string told = plan("portfolio:budget=4", "plan.json", limit);
  EXPECT_TRUE(has(told, "rewrites chosen to fit the memory: recompute=0\n")) << told;
  const json file = read_json("plan.json");
  EXPECT_EQ(file.at("rewrites"), "recompute=0");
  for (const json& task : file.at("sequence")) {
    EXPECT_TRUE(has(task.at("reason").get<std::string>(), " after recompute=0 (")) << task;
  }
  const std::vector<double> expected = losses("program", "original");
  EXPECT_EQ(losses("file:plan.json", "replayed", limit), expected);
  EXPECT_EQ(losses("portfolio:budget=4", "planned", limit), expected);
  const Words words = under("anneal:iterations=2", limit), planned = testing::joined(words, {"--dry-run"});
  for (const char* command : {"simulate", "explain"}) {
    EXPECT_TRUE(figures(command, words).at("rewrites_for_memory").get<std::string>().starts_with("recompute"));
    EXPECT_TRUE(has(weft(command, words).output, "chosen by anneal:iterations=2 to fit the memory")) << command;
  }
  EXPECT_EQ(figures("train", planned).at("rewrites_for_memory"), "recompute=0");
  EXPECT_TRUE(has(weft("train", planned).output, "recompute=0, chosen by anneal:iterations=2 to fit the memory"));
}

// The order is used where the tasks are the same, as of another sequence length; whoever reads the times is told.
TEST_F(PlanCommand, APlanOfAnotherGraphIsToldByBothFingerprints) {
  plan("lhs", "plan.json");
  plan("lhs", "longer.json", {"--seq-len", "8"});
  const auto print = [&](const char* file) { return read_json(file).at("graph").at("fingerprint").get<std::string>(); };
  ASSERT_NE(print("plan.json"), print("longer.json"));
  for (const char* command : {"simulate", "explain", "train"}) {
    const Words words = under("file:plan.json", command == std::string("train") ? Words{"--dry-run"} : Words{});
    EXPECT_EQ(testing::succeeded(weft(command, words)).errors, "") << command;
    const testing::CommandResult other = testing::succeeded(weft(command, testing::joined(words, {"--seq-len", "8"})));
    const std::string filed = print("plan.json"), own = print("longer.json");
    EXPECT_TRUE(has_parts(other.errors, {"warning:", "plan.json", filed, own})) << command;
    EXPECT_EQ(other.errors.find("warning:"), other.errors.rfind("warning:")) << "once";
  }
}

TEST_F(PlanCommand, EqualRunsWriteEqualFiles) {
  for (const char* policy : {"serial", "lhs", "random", "anneal"}) {
    plan(policy, "a.json");
    plan(policy, "b.json");
    EXPECT_EQ(read("a.json"), read("b.json")) << policy;
  }
}

TEST_F(PlanCommand, RefusesWhatItCannotUse) {
  plan("program", "plan.json");
  folder_.write("cut.json", read("plan.json").substr(0, 1000));
  expect_refused("plan", {"-o", "no/such/plan.json"}, {"no/such"});
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
