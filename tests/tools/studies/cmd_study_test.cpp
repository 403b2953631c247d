// `weft study` as a process: files of a scaling study agree with what search and simulate tell, wrong words are
// refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/csv.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class StudyCommand : public ::testing::Test {
 protected:
  testing::CommandResult run(const std::vector<std::string>& words) const {
    return testing::run_weft(words, folder_.path().string());
  }
  testing::CommandResult scaling(const std::vector<std::string>& more) const {
    return run(testing::joined(
        {"study", "scaling", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8", "--finalists", "2"},
        more));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(StudyCommand, ScalesAsSearchFinds) {
  const auto result =
      scaling({"--points", "1", "2", "7", "--kind", "strong", "-o", "a.csv", "-o", "a.svg", "-o", "a.json", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json all = json::parse(result.output);
  const json& rows = all.at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_NE(rows[2].at("reason").get<std::string>().find("7 ranks"), std::string::npos);
  const auto found = run({"search", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8", "--finalists",
                          "2", "--ranks", "2", "--json"});
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  const json best = json::parse(found.output).at("configurations")[0];
  for (const char* key : {"step_ms", "memory_bytes", "grid", "policy", "micro_batch", "mfu"}) {
    EXPECT_EQ(rows[1].at(key), best.at(key)) << key;
  }
  EXPECT_EQ(json::parse(testing::TemporaryFolder::read(folder_.path("a.json"))), all);
  EXPECT_EQ(read_csv(testing::TemporaryFolder::read(folder_.path("a.csv")))->size(), 4U);
  EXPECT_NE(testing::TemporaryFolder::read(folder_.path("a.svg")).find("strong scaling of tiny"), std::string::npos);
}

TEST_F(StudyCommand, TakesTheFileOfASearch) {
  ASSERT_EQ(run({"search", "--model", "tiny", "--machine", "perlmutter", "--global-batch", "8", "--finalists", "2",
                 "--ranks", "2", "-o", "best.toml", "--quiet"})
                .exit_code,
            0);
  const auto result = scaling({"--points", "1", "2:best.toml", "--kind", "strong", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto simulated = run({"simulate", "best.toml", "--json"});
  EXPECT_EQ(json::parse(result.output).at("rows")[1].at("memory_bytes"),
            json::parse(simulated.output).at("memory_bytes"));
}

TEST_F(StudyCommand, RefusesWhatItCantStudy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--points", "1"}, "--kind"},
      {{"--kind", "weak"}, "--points"},
      {{"--points", "1", "--kind", "middling"}, "weak"},
      {{"--points", "one", "--kind", "weak"}, "--points one"},
      {{"--points", "1", "1", "--kind", "weak"}, "twice"},
      {{"--points", "2", "--kind", "weak", "--ranks", "2"}, "leave it out"},
      {{"--points", "3", "4", "--kind", "weak"}, "whole number"},
      {{"--points", "2:tinny", "--kind", "weak"}, "tinny"},
      {{"--points", "2:missing.toml", "--kind", "weak"}, "missing.toml"},
      {{"--points", "2", "--kind", "weak", "--machines", "perlmuter"}, "perlmutter"},
      {{"--points", "2", "--kind", "weak", "--policies", "fastest"}, "fastest"},
      {{"--points", "2", "--kind", "weak", "--keep", "policy"}, "--keep policy"},
      {{"--points", "2", "--kind", "weak", "-o", "a.png"}, ".svg"},
      {{"--points", "2", "--kind", "weak", "--lr", "1"}, "weft study scaling doesn't read --lr"},
      {{"--points", "7", "11", "--kind", "strong"}, "none of the 2 points"}};
  for (const auto& [more, part] : wrong) {
    const auto result = scaling(more);
    EXPECT_EQ(result.exit_code, 2) << part << result.errors << result.output;
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << "\n" << result.errors;
  }
  EXPECT_EQ(run({"study"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
