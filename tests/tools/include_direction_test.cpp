// Includes go one way, from tools down to base, and a source file or a folder keeps the size of one concept.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/rooms.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

using testing::room_of;
using testing::room_tops;
using testing::rooms;

constexpr std::size_t kMostLines = 600;

bool may_include(const std::string& file, const std::string& target) {
  if (target.starts_with("tests/") || target.starts_with("bench/")) return false;
  const std::size_t from = room_of(file), to = room_of(target);
  if (to == rooms().size()) return true;  // not ours
  if (to > from) return false;
  if (rooms()[from].folder == "runtime/comm" && rooms()[to].folder == "kernels") {
    return target == "kernels/cpu/elementwise/reduce.h";
  }
  const std::vector<std::string>& unknown = rooms()[from].unknown;
  return std::find(unknown.begin(), unknown.end(), rooms()[to].folder) == unknown.end();
}

/// "ops/linear.cpp:3: #include …" for each include that the file's room may not know.
std::vector<std::string> violations(const std::string& file, const std::string& text) {
  static const std::regex include(R"re(^\s*#\s*include\s*["<]([^">]*)[">].*)re");
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_match(line, match, include) || may_include(file, match[1])) continue;
    found.push_back(fmt::format("{}:{}: {}", file, number, line));
  }
  return found;
}

TEST(IncludeDirection, HoldsInEveryRoom) {
  std::set<std::size_t> seen;
  for (const fs::path& path : testing::source_files(room_tops())) {
    const std::string file = testing::source_name(path);
    const std::size_t room = room_of(file);
    ASSERT_LT(room, rooms().size()) << file << " lies in no room";
    seen.insert(room);
    for (const std::string& violation : violations(file, testing::source_text(path))) ADD_FAILURE() << violation;
  }
  EXPECT_EQ(seen.size(), rooms().size()) << "a room is empty";
}

TEST(IncludeDirection, SeesAViolation) {
  EXPECT_EQ(violations("ops/a.h", "#pragma once\n#include \"runtime/plan/plan.h\"\n"),
            std::vector<std::string>{"ops/a.h:2: #include \"runtime/plan/plan.h\""});
  for (const auto& [file, target] : std::vector<std::pair<std::string, std::string>>{
           {"graph/a.h", "kernels/cpu/parallel.h"},
           {"kernels/a.h", "graph/graph.h"},
           {"runtime/plan/a.h", "ops/lower.h"},
           {"runtime/plan/a.h", "runtime/policy/policy.h"},
           {"runtime/plan/rewrites/a.cpp", "kernels/cpu/gemm/packed_gemm.h"},
           {"runtime/comm/a.cpp", "kernels/cpu/gemm/gemm.h"},
           {"runtime/simulate/a.h", "runtime/comm/communicator.h"},
           {"inspect/drawing/a.h", "runtime/execute/executor.h"},
           {"base/text/a.h", "graph/id.h"},
           {"train/checkpoint/a.h", "train/config/config.h"},
           {"train/measure/a.h", "train/trainer.h"},
           {"train/a.h", "study/comparison.h"},
           {"study/a.h", "tools/version.h"},
           {"tools/a.h", "tests/tools/run_command.h"}}) {
    EXPECT_EQ(violations(file, "#  include \"" + target + "\"  // why\n").size(), 1U) << file << ' ' << target;
    EXPECT_EQ(violations(file, "#include <" + target + ">\n").size(), 1U) << file << ' ' << target;
  }
}

TEST(IncludeDirection, AcceptsWhatIsBelowAndOutside) {
  const std::string text = "#include \"base/error.h\"\n#include \"graph/graph.h\"\n#include <sys/wait.h>\n";
  for (const char* file : {"ops/a.h", "runtime/plan/a.h", "inspect/a.h", "train/data/a.h"}) {
    EXPECT_TRUE(violations(file, text).empty()) << file;
  }
  EXPECT_TRUE(
      violations("train/a.cpp", "#include \"train/measure/b.h\"\n#include \"kernels/cpu/parallel.h\"\n").empty());
}

TEST(FolderSize, NoFolderHoldsTwoRooms) {
  constexpr std::size_t kMostFiles = 40;
  std::map<fs::path, std::size_t> files;
  for (const std::string& top : room_tops()) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(WEFT_SOURCE_DIR) / top)) {
      if (entry.is_regular_file()) ++files[entry.path().parent_path()];
    }
  }
  EXPECT_GT(files.size(), room_tops().size());
  for (const auto& [folder, count] : files) EXPECT_LE(count, kMostFiles) << folder;
}

TEST(FileSize, NoSourceHoldsTwoConcepts) {
  for (const fs::path& file : testing::source_files(room_tops({"tests", "bench"}))) {
    const std::string text = testing::source_text(file);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    EXPECT_LE(lines, kMostLines) << testing::source_name(file);
  }
}

}  // namespace
}  // namespace weft::tools
