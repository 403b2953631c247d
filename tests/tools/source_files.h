// The project's own source files, for tests that read them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace weft::testing {

/// Headers and sources of one of the project's folders, and of the folders in it.
inline std::vector<std::filesystem::path> source_files(const std::string& folder) {
  static const std::set<std::string> endings{".h", ".cpp", ".cu", ".cuh"};
  std::vector<std::filesystem::path> list;
  const std::filesystem::path root = std::filesystem::path(WEFT_SOURCE_DIR) / folder;
  if (!std::filesystem::exists(root)) return list;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) list.push_back(entry.path());
  }
  std::sort(list.begin(), list.end());
  return list;
}

inline std::string source_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// As people name it: "runtime/plan/plan.h".
inline std::string source_name(const std::filesystem::path& path) {
  return std::filesystem::relative(path, WEFT_SOURCE_DIR).string();
}

}  // namespace weft::testing
