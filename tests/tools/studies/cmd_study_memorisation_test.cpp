// `weft study memorisation` as a process: a small study, which goes on where it was stopped; wrong words are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/study/memorisation/small_memorisation.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

class StudyMemorisation : public ::testing::Test {
 protected:
  StudyMemorisation() { testing::write_study_text(folder_); }
  testing::CommandResult run(const std::vector<std::string>& more) const {
    return testing::run_weft(testing::joined({"study",    "memorisation",
                                              "--data",   "text.txt",
                                              "--vocab",  "300",
                                              "--length", "12",
                                              "--tail",   "4",
                                              "--seen",   "0",
                                              "2",        "--documents",
                                              "2",        "--background",
                                              "8",        "--held-out",
                                              "4",        "--models",
                                              "1m",       "--seeds",
                                              "1",        "--batch",
                                              "4",        "--goldfish",
                                              "k=2,h=3",  "-o",
                                              "out"},
                                             more),
                             folder_.path().string());
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(StudyMemorisation, GoesOnWhereItWasStopped) {
  const auto whole = run({"--json"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  const nlohmann::json all = nlohmann::json::parse(whole.output);
  EXPECT_EQ(all.at("results").size(), 3U);
  EXPECT_EQ(nlohmann::json::parse(testing::TemporaryFolder::read(folder_.path("out/results.json"))), all);
  std::filesystem::remove(folder_.path("out/results/1m-goldfish-1.json"));
  const auto again = run({"--json"});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  const nlohmann::json rest = nlohmann::json::parse(again.output);
  EXPECT_EQ(rest.at("summary"), all.at("summary"));
  EXPECT_EQ(rest.at("results")[0], all.at("results")[0]) << "taken from the folder, its seconds too";
}

TEST_F(StudyMemorisation, RefusesWrongWords) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--goldfish", ""},
                                               {"--goldfish", "k=1"},
                                               {"--set", "lr"},
                                               {"--set", "model=tiny"},
                                               {"--models", "huge"},
                                               {"--data", "none.txt"},
                                               {"--background", "1000000"},
                                               {"--tokenizer", "none"}}) {
    const auto result = run(more);
    EXPECT_EQ(result.exit_code, 2) << more[1] << result.errors;
  }
}

}  // namespace
}  // namespace weft::tools
