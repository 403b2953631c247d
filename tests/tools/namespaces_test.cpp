// A name belongs to its room: each library has a namespace, so that two rooms can call two things alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/rooms.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

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
    const std::string file = testing::source_name(path), text = testing::source_text(path);
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

}  // namespace
}  // namespace weft::tools
