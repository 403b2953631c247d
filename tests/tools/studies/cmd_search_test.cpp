// `weft search` as a process: its file simulates to the step that it tells, and wrong flags are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class SearchCommand : public ::testing::Test {
 protected:
  testing::CommandResult run(const std::string& command, const std::vector<std::string>& more) const {
    return testing::run_weft(testing::joined({command}, more), folder_.path().string());
  }
  /// Of a small model on two nodes.
  testing::CommandResult search(const std::vector<std::string>& more) const {
    return run("search", testing::joined({"--model", "small", "--machine", "perlmutter", "--ranks", "8",
                                          "--global-batch", "16", "--dtype", "bf16", "--finalists", "3"},
                                         more));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(SearchCommand, WritesAFileThatSimulatesToItsStep) {
  const testing::CommandResult found = search({"-o", "best.toml", "--svg", "front.svg", "--json", "--top", "4"});
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  const json all = json::parse(found.output).at("configurations");
  ASSERT_EQ(all.size(), 4U);
  const json& best = all.at(0);
  for (const json& each : all) {
    EXPECT_TRUE(each.at("estimated") || best.at("step_ms") <= each.at("step_ms"));
    EXPECT_TRUE(each.at("fits"));
  }
  const testing::CommandResult simulated = run("simulate", {"best.toml", "--json"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.errors;
  const json step = json::parse(simulated.output);
  EXPECT_EQ(step.at("step_seconds").get<double>(), best.at("step_seconds").get<double>());  // to the last digit
  EXPECT_EQ(step.at("memory_bytes"), best.at("memory_bytes"));
  EXPECT_EQ(step.at("policy"), best.at("policy"));
  EXPECT_EQ(step.at("grid"), best.at("grid"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("front.svg")));
  // The file trains: a dry run plans it.
  const testing::CommandResult dry = run("train", {"best.toml", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.errors;
}

TEST_F(SearchCommand, TellsWhyAndKeepsKeys) {
  const testing::CommandResult found =
      search({"--keep", "micro-batch", "recompute", "--micro-batch", "1", "--why", "1", "2", "--quiet"});
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_NE(found.output.find("computing alone"), std::string::npos) << found.output;
  EXPECT_EQ(found.output.find("recompute"), std::string::npos) << found.output;
}

TEST_F(SearchCommand, TakesAFileWhoseGridIsOpen) {
  folder_.write("open.toml", "grid = \"auto\"\nmodel = \"tiny\"\nranks = 2\n");
  const testing::CommandResult found = run("search", {"open.toml", "--json", "--top", "1", "-o", "best.toml"});
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_EQ(json::parse(found.output).at("ranks"), 2);
  EXPECT_EQ(testing::TemporaryFolder::read(folder_.path("best.toml")).find("\ngrid = \"auto\""), std::string::npos);
  for (const char* command : {"search", "train"}) {
    const testing::CommandResult dumped = run(command, {"open.toml", "--ranks", "6", "--dump-config"});
    EXPECT_EQ(dumped.exit_code, 0) << dumped.errors;
    EXPECT_NE(dumped.output.find("\ngrid = \"auto\"\n"), std::string::npos) << dumped.output;
  }
  EXPECT_EQ(run("search", {"open.toml", "--keep", "grid"}).exit_code, 2);
}

TEST_F(SearchCommand, RefusesWhatItCantSearch) {
  const std::vector<std::vector<std::string>> wrong = {{"--keep", "policy"},
                                                       {"--why", "1"},
                                                       {"--why", "1", "x"},
                                                       {"--policies", "fastest"},
                                                       {"--ranks", "7"},
                                                       {"--memory", "1MiB"},
                                                       {"--rewrites", "recompute:0-1"},
                                                       {"--finalists", "0"}};
  for (const std::vector<std::string>& words : wrong) {
    std::vector<std::string> with_output = words;
    with_output.insert(with_output.end(), {"-o", "best.toml"});
    const testing::CommandResult refused = search(with_output);
    EXPECT_EQ(refused.exit_code, 2) << words[0] << refused.errors << refused.output;
    EXPECT_FALSE(std::filesystem::exists(folder_.path("best.toml"))) << words[0];
  }
}

}  // namespace
}  // namespace weft::tools
