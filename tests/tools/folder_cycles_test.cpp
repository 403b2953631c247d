// Folders of a room know each other one way, as rooms do: what lies below doesn't know what is built on it.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/rooms.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

using Known = std::map<std::string, std::set<std::string>>;  // by folder: the folders whose files it includes

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
    add_includes(known, testing::source_name(path), testing::source_text(path));
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

}  // namespace
}  // namespace weft::tools
