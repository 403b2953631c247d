// Rules of the rooms: includes go one way, from tools down to base, names belong to their room, and a function, a
// source file and a folder keep the size of one concept.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
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
    for (const std::string& violation : violations(file, testing::TemporaryFolder::read(path)))
      ADD_FAILURE() << violation;
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
    const std::string text = testing::TemporaryFolder::read(file);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    EXPECT_LE(lines, kMostLines) << testing::source_name(file);
  }
}

// ---- folders of a room know each other one way, too: what lies below doesn't know what is built on it

using Known = std::map<std::string, std::set<std::string>>;  // by folder: the folders that its files include

std::string folder_of(const std::string& file) {
  return fs::path(file).parent_path().string();
}

void add_includes(Known& known, const std::string& file, const std::string& text) {
  static const std::regex include(R"re(#\s*include\s*"([^"]*)")re");
  for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (testing::room_of(target) != testing::room_of(file) || folder_of(target) == folder_of(file)) continue;
    known[folder_of(file)].insert(folder_of(target));
  }
}

/// The folders that `from` knows, directly and through others.
std::set<std::string> reached_from(const Known& known, const std::string& from) {
  std::set<std::string> reached;
  std::vector<std::string> open{from};
  while (!open.empty()) {
    const auto next = known.find(open.back());
    open.pop_back();
    if (next == known.end()) continue;
    for (const std::string& folder : next->second) {
      if (reached.insert(folder).second) open.push_back(folder);
    }
  }
  return reached;
}

/// Folders that know themselves through others.
std::set<std::string> folders_in_cycles(const Known& known) {
  std::set<std::string> found;
  for (const auto& [folder, targets] : known) {
    if (reached_from(known, folder).contains(folder)) found.insert(folder);
  }
  return found;
}

TEST(FolderCycles, NoRoomHasOne) {
  Known known;
  for (const fs::path& path : testing::source_files(testing::room_tops())) {
    add_includes(known, testing::source_name(path), testing::TemporaryFolder::read(path));
  }
  EXPECT_GT(known.size(), 20U);
  EXPECT_EQ(folders_in_cycles(known), std::set<std::string>{});
}

TEST(FolderCycles, SeesOne) {
  Known known;
  add_includes(known, "inspect/drawing/a.h", "#include \"inspect/report/b.h\"\n#include \"graph/graph.h\"\n");
  EXPECT_TRUE(folders_in_cycles(known).empty());
  add_includes(known, "inspect/report/b.h", "#include <vector>\n\n#include \"inspect/import/c.h\"\n");
  add_includes(known, "inspect/import/c.h", "#include \"inspect/drawing/a.h\"\n#include \"inspect/import/d.h\"\n");
  EXPECT_EQ(folders_in_cycles(known), (std::set<std::string>{"inspect/drawing", "inspect/import", "inspect/report"}));
}

// ---- a name belongs to its room: each library has a namespace, so that two rooms can call two things alike

/// Names of the namespaces that a text opens at the begin of a line.
std::vector<std::string> opened(const std::string& text) {
  static const std::regex open(R"(^namespace (weft[a-z_:]*) \{.*)");
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, open)) names.push_back(match[1]);
  }
  return names;
}

bool is_of(const std::string& name, const testing::Room& room) {
  return std::ranges::any_of(room.namespaces,
                             [&](const std::string& own) { return name == own || name.starts_with(own + "::"); });
}

TEST(Namespaces, FilesOpenTheirRooms) {
  std::size_t found = 0;
  for (const fs::path& path : testing::source_files(testing::room_tops())) {
    const std::string file = testing::source_name(path), text = testing::TemporaryFolder::read(path);
    const testing::Room& room = testing::rooms().at(testing::room_of(file));
    bool own = false;
    for (const std::string& name : opened(text)) {
      own = own || is_of(name, room);
      // Another room's name may be declared, not defined.
      const bool declares = text.find("namespace " + name + " {\nclass ") != std::string::npos;
      EXPECT_TRUE(is_of(name, room) || declares) << file << " opens " << name;
    }
    found += own ? 1 : 0;
  }
  EXPECT_GT(found, 300U);
}

TEST(Namespaces, AreSeen) {
  EXPECT_EQ(opened("#pragma once\nnamespace weft::plan {\nnamespace {\n}\n}  // namespace weft::plan\n"),
            std::vector<std::string>{"weft::plan"});
  EXPECT_TRUE(is_of("weft::cuda::norm", {"kernels", {"weft::cpu", "weft::cuda"}, {}}));
  EXPECT_FALSE(is_of("weft::planet", {"runtime/plan", {"weft::plan"}, {}}));
}

// ---- a function holds one thought: at most 80 lines, but for tables of values

constexpr std::size_t kMostFunctionLines = 80;

/// "name: lines" of each function that is too long. Functions within functions count as parts of these.
std::vector<std::string> long_functions(const std::string& text) {
  static const std::regex scope(
      R"(\s*(template\s*<[^;]*>\s*)?(inline |export )?(namespace|struct|class|union|extern)\b[^=]*)");
  struct Block {
    bool is_scope, is_function;
    std::size_t line;
    std::string head;
  };
  std::vector<Block> open;
  std::vector<std::string> found;
  std::string head;  // since the last statement's end
  std::size_t line = 1;
  for (const char c : testing::code_of(text)) {
    if (c == '\n') ++line;
    if (c == '{') {
      const bool outside = std::ranges::all_of(open, &Block::is_scope);
      const bool is_scope = outside && std::regex_match(head, scope);
      open.push_back({is_scope, outside && !is_scope && head.find('(') != std::string::npos, line, head});
    } else if (c == '}' && !open.empty()) {
      const Block& block = open.back();
      const std::size_t lines = line - block.line + 1;
      if (block.is_function && lines > kMostFunctionLines) {
        const std::size_t parameters = block.head.find('('), name = block.head.find_last_of(" \n*&", parameters) + 1;
        found.push_back(fmt::format("{}: {}", block.head.substr(name, parameters - name), lines));
      }
      open.pop_back();
    }
    if (c == ';' || c == '{' || c == '}') {
      head.clear();
    } else if (!head.ends_with(' ') || c != ' ') {
      head += c == '\n' ? ' ' : c;
    }
  }
  return found;
}

std::string function_of(const std::string& head, std::size_t lines) {
  std::string text = "namespace weft {\nstruct Holder {\n" + head + " {\n";
  for (std::size_t i = 2; i < lines; ++i)
    text += i % 2 == 0 ? "  if (x) { y(\"}\"); }  // {\n" : "  z('}', 1'000, R\"(})\");\n";
  return text + "}\n};\n}  // namespace weft\n";
}

TEST(FunctionSize, HoldsOneThought) {
  for (const auto& file : testing::source_files(testing::room_tops({"tests", "bench", "python"}))) {
    for (const std::string& each : long_functions(testing::TemporaryFolder::read(file)))
      ADD_FAILURE() << testing::source_name(file) << ": " << each;
  }
}

TEST(FunctionSize, CountsAFunctionsLines) {
  EXPECT_EQ(long_functions(function_of("int add(int a,\n        int b) const", kMostFunctionLines)),
            std::vector<std::string>{});
  EXPECT_EQ(long_functions(function_of("int add(int a,\n        int b) const", kMostFunctionLines + 1)),
            std::vector<std::string>{fmt::format("add: {}", kMostFunctionLines + 1)});
  EXPECT_EQ(long_functions(function_of("Table list", kMostFunctionLines + 9)), std::vector<std::string>{});
}

}  // namespace
}  // namespace weft::tools
