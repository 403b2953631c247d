// bench/same_results: it is quiet about a program that computes the same, and finds a single result that differs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

testing::CommandResult same_results(std::vector<std::string> words) {
  words.insert(words.begin(), WEFT_SOURCE_DIR "/bench/same_results");
  return testing::run(words);
}

/// A program that is weft but for the fingerprints that it prints.
std::string with_other_fingerprints(const fs::path& folder) {
  const fs::path file = folder / "other_weft";
  std::ofstream(file) << "#!/bin/sh\n" WEFT_EXECUTABLE " \"$@\" | sed 's/\"fingerprint\":\"/&f/'\n";
  fs::permissions(file, fs::perms::owner_all);
  return file.string();
}

TEST(SameResults, AProgramComputesWhatItComputes) {
  const testing::CommandResult result = testing::succeeded(
      same_results({WEFT_EXECUTABLE, WEFT_EXECUTABLE, "--only", "^(gpt, fp32, x=2,z=2|dry run: llama, bf16, z=2)$"}));
  EXPECT_NE(result.output.find("Everything is the same."), std::string::npos) << result.output;
}

TEST(SameResults, AnotherFingerprintIsADifference) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "differences.json").string();
  const testing::CommandResult result = same_results({WEFT_EXECUTABLE, with_other_fingerprints(folder.path()), "--only",
                                                      "^dry run: llama, bf16, z=2$", "--json", file});
  EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
  const nlohmann::json rows = nlohmann::json::parse(std::ifstream(file)).at("dry run: llama, bf16, z=2");
  ASSERT_EQ(rows.size(), 1U) << rows;
  EXPECT_EQ(rows[0].at("file"), "weft train");
  EXPECT_EQ(rows[0].at("place"), "plans.decode.fingerprint");
}

TEST(SameResults, ACaseThatNeitherProgramCanRunIsADifference) {
  const testing::TemporaryFolder folder;
  const fs::path broken = folder.path() / "broken";
  // It makes the inputs and nothing else.
  std::ofstream(broken) << "#!/bin/sh\n[ \"${PWD##*/}\" = inputs ] && exec " WEFT_EXECUTABLE " \"$@\"\nexit 3\n";
  fs::permissions(broken, fs::perms::owner_all);
  const testing::CommandResult result =
      same_results({broken.string(), broken.string(), "--only", "^dry run: llama, bf16, z=2$"});
  EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
}

TEST(SameResults, EachKindOfChangeIsFound) {
  testing::succeeded(same_results({"--self-test", WEFT_EXECUTABLE}));
}

}  // namespace
}  // namespace weft::tools
