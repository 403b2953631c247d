// Every file below examples/ is run: a configuration's comment has the commands that show it, indented by three spaces,
// and they work in their order.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

const fs::path examples = fs::path(WEFT_SOURCE_DIR) / "examples";

// The commands in the comment at the beginning of a file, by line.
std::vector<std::string> commands_of(const std::string& text) {
  constexpr std::string_view indented = "#   ";
  std::vector<std::string> commands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with("#");) {
    if (line.starts_with(indented)) commands.push_back(line.substr(indented.size()));
  }
  return commands;
}

// Names of all files, relative to examples/.
std::set<std::string> files() {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(examples)) {
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), examples).string());
  }
  return names;
}

TEST(Examples, CommandsAreReadFromTheFirstComment) {
  EXPECT_EQ(commands_of("# What it shows.\n#\n#   weft a\n#   weft b --c\n# End.\nsteps = 5\n#   weft d\n"),
            (std::vector<std::string>{"weft a", "weft b --c"}));
}

// A file counts if its own commands use it, or if another example does. The library and the policy have builds and
// tests of their own: InstalledLibrary, and the policy libraries of runtime_test and tools_test.
TEST(Examples, EveryFileIsRun) {
  std::string used;
  for (const std::string& name : files()) {
    if (!name.ends_with(".toml")) continue;
    std::istringstream lines(testing::TemporaryFolder::read(examples / name));
    for (const std::string& command : commands_of(testing::TemporaryFolder::read(examples / name)))
      used += command + "\n";
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("#")) used += line + "\n";
    }
  }
  const std::set<std::string> built_elsewhere{
      "library/CMakeLists.txt", "library/main.cpp", "policy/CMakeLists.txt", "policy/mine.cpp",  "python/cp_sat.py",
      "python/policy.py",       "python/sweep.py",  "python/what_if.py",     "torch/cluster.py", "torch/train.py"};
  const std::string guide = testing::TemporaryFolder::read(examples / "README.md");
  for (const std::string& name : files()) {
    if (name.ends_with("README.md")) continue;
    EXPECT_TRUE(built_elsewhere.contains(name) || used.find("examples/" + name) != std::string::npos)
        << name << " is used by no command in an example's first comment";
    if (name.ends_with(".toml")) {
      EXPECT_NE(guide.find("(" + name + ")"), std::string::npos) << "examples/README.md doesn't name " << name;
    }
  }
}

TEST(Examples, CommandsWorkInTheirOrder) {
  std::size_t configurations = 0;
  for (const std::string& name : files()) {
    const auto commands = commands_of(testing::TemporaryFolder::read(examples / name));
    if (!name.ends_with(".toml") || commands.empty()) continue;
    ++configurations;
    const testing::TemporaryFolder folder;
    fs::create_directory_symlink(WEFT_BINARY_DIR, folder.path() / "build");
    fs::create_directory_symlink(examples, folder.path() / "examples");
    std::string script = "set -e\n";
    for (const std::string& command : commands) script += command + "\n";
    const auto result = testing::run({"/bin/bash", "-c", script}, folder.path().string());
    EXPECT_EQ(result.exit_code, 0) << name << "\n" << result.output << result.errors;
  }
  EXPECT_GT(configurations, 20U);
}

// The policy by its own build file, with the installed header, and compared with a built-in policy.
TEST(Examples, PolicyIsBuiltAndCompared) {
  const testing::TemporaryFolder folder;
  const std::string header = (fs::path(WEFT_BINARY_DIR) / "installed").string();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"/usr/bin/env", "cmake", "-S", (examples / "policy").string(), "-B",
                                              "mine", "-DWEFT_INCLUDE_DIR=" + header},
                                             {"/usr/bin/env", "cmake", "--build", "mine"}}) {
    const auto built = testing::run(words, folder.path().string());
    ASSERT_EQ(built.exit_code, 0) << built.output << built.errors;
  }
  const testing::CommandResult compared = testing::succeeded(
      testing::run_weft({"compare", (examples / "overlap.toml").string(), "--policies", "program", "./mine/mine.so"},
                        folder.path().string()));
  EXPECT_NE(compared.output.find("mine.so"), std::string::npos) << compared.output;
}

}  // namespace
}  // namespace weft::tools
