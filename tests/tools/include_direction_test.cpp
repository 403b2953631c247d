// Includes go one way, from tools down to base, and a source file stays a file of one concept.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/source_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 600;

/// Which folders a folder's files may include.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>> allowed{
      {"base", {"base"}},
      {"graph", {"base", "graph"}},
      {"kernels", {"base", "kernels"}},
      {"ops", {"base", "graph", "ops"}},
      {"runtime", {"base", "graph", "kernels", "runtime"}},
      {"train", {"base", "graph", "kernels", "ops", "runtime", "train"}},
      {"tools", {"base", "graph", "kernels", "ops", "runtime", "train", "tools"}},
  };
  return allowed;
}

/// "ops/linear.cpp:3 includes runtime/plan.h" for each include of another folder that `folder` may not know.
std::vector<std::string> violations(const std::string& folder, const std::string& file, const std::string& text) {
  static const std::regex include(R"re(^\s*#\s*include\s*["<]([a-z]+)/[^">]*[">].*)re");
  const std::set<std::string>& allowed = allowed_includes().at(folder);
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_match(line, match, include)) continue;
    const std::string target = match[1];
    const bool ours = allowed_includes().contains(target) || target == "tests" || target == "bench";
    if (ours && !allowed.contains(target)) {
      found.push_back(file + ":" + std::to_string(number) + ": " + line);
    }
  }
  return found;
}

TEST(IncludeDirection, HoldsInEveryFolder) {
  for (const auto& [folder, allowed] : allowed_includes()) {
    const std::vector<fs::path> files = testing::source_files(folder);
    EXPECT_FALSE(files.empty()) << folder;
    for (const fs::path& file : files) {
      for (const std::string& violation : violations(folder, testing::source_name(file), testing::source_text(file))) {
        ADD_FAILURE() << violation;
      }
    }
  }
}

TEST(IncludeDirection, SeesAViolation) {
  EXPECT_EQ(violations("ops", "ops/a.h", "#pragma once\n#include \"runtime/plan.h\"\n"),
            std::vector<std::string>{"ops/a.h:2: #include \"runtime/plan.h\""});
  EXPECT_EQ(violations("graph", "graph/a.h", "#  include <kernels/cpu/matrix.h>\n").size(), 1U);
  EXPECT_EQ(violations("kernels", "kernels/a.h", "#include \"graph/graph.h\"\n").size(), 1U);
  EXPECT_EQ(violations("runtime", "runtime/a.h", "#include \"ops/lower.h\"\n").size(), 1U);
  EXPECT_EQ(violations("base", "base/a.h", "#include \"graph/id.h\"  // why\n").size(), 1U);
  EXPECT_EQ(violations("train", "train/a.h", "#include \"tools/version.h\"\n").size(), 1U);
  EXPECT_EQ(violations("tools", "tools/a.h", "#include \"tests/tools/run_command.h\"\n").size(), 1U);
}

TEST(IncludeDirection, AcceptsWhatIsBelowAndOutside) {
  const std::string text = "#include \"base/error.h\"\n#include \"graph/graph.h\"\n#include <sys/wait.h>\n";
  EXPECT_TRUE(violations("ops", "ops/a.h", text).empty());
}

TEST(FileSize, NoSourceHoldsTwoConcepts) {
  for (const std::string folder : {"base", "graph", "kernels", "ops", "runtime", "train", "tools", "tests", "bench"}) {
    for (const fs::path& file : testing::source_files(folder)) {
      const std::string text = testing::source_text(file);
      const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      EXPECT_LE(lines, kMostLines) << testing::source_name(file);
    }
  }
}

}  // namespace
}  // namespace weft
