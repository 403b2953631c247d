// The project's own source files, for tests that read them.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing {

/// Headers and sources of some of the project's folders, and of the folders in them.
inline std::vector<std::filesystem::path> source_files(const std::vector<std::string>& folders) {
  static const std::set<std::string> endings{".h", ".cpp", ".cu", ".cuh"};
  std::vector<std::filesystem::path> list;
  for (const std::string& folder : folders) {
    const std::filesystem::path root = std::filesystem::path(WEFT_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) list.push_back(entry.path());
    }
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

/// The code of a source: comments, literals and directives are blanks, and lines stay.
inline std::string code_of(std::string text) {
  const auto past = [&](std::string_view end, std::size_t from) {
    const std::size_t found = text.find(end, from);
    return found == std::string::npos ? text.size() : found + end.size();
  };
  const auto end_of_other = [&](std::size_t at) {  // `at` where code goes on
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with("//")) return past("\n", at);
    if (rest.starts_with("/*")) return past("*/", at + 2);
    if (rest.starts_with('#')) {
      std::size_t end = past("\n", at);
      while (end < text.size() && text[end - 2] == '\\') end = past("\n", end);
      return end;
    }
    if (rest.starts_with("R\"")) {
      const std::size_t open = text.find('(', at);
      return past(")" + text.substr(at + 2, open - at - 2) + "\"", open);
    }
    const bool digit_before = at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1])) != 0;  // 1'000'000
    if (rest.front() != '"' && (rest.front() != '\'' || digit_before)) return at;
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != rest.front()) end += text[end] == '\\' ? 2 : 1;
    return end + 1;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(end_of_other(at), text.size());
    std::replace_if(
        text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end),
        [](char c) { return c != '\n'; }, ' ');
    at = std::max(end, at + 1);
  }
  return text;
}

/// As people name it: "runtime/plan/plan.h".
inline std::string source_name(const std::filesystem::path& path) {
  return std::filesystem::relative(path, WEFT_SOURCE_DIR).string();
}

}  // namespace weft::testing
