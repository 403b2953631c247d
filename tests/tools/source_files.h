// The project's own source files and the rooms that they lie in: folders in the order in which they may know each
// other, each with its namespace.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
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

/// A room knows itself and the rooms before it, except the rooms that are kept from it.
struct Room {
  std::string folder;
  std::vector<std::string> namespaces;  // of its code
  std::vector<std::string> unknown;     // folders
};

inline const std::vector<Room>& rooms() {
  static const std::vector<Room> list{
      {"base", {"weft"}, {}},
      {"text", {"weft::text"}, {}},
      {"graph", {"weft::graph"}, {"text"}},
      {"kernels", {"weft::cpu", "weft::cuda", "weft::kernels"}, {"text", "graph"}},
      {"ops", {"weft::ops"}, {"text", "kernels"}},
      {"runtime/plan", {"weft::plan"}, {"text", "kernels", "ops"}},
      {"runtime/cost", {"weft::cost"}, {"text", "kernels", "ops"}},
      {"runtime/time", {"weft::time"}, {"text", "kernels", "ops"}},
      {"runtime/policy", {"weft::policy"}, {"text", "kernels", "ops"}},
      {"runtime/comm", {"weft::comm"}, {"text", "ops"}},  // it knows the kernels of sums alone
      {"runtime/simulate", {"weft::simulate"}, {"text", "kernels", "ops", "runtime/comm"}},
      {"runtime/execute", {"weft::execute"}, {"text", "ops"}},
      {"inspect", {"weft::inspect"}, {"text", "kernels", "ops", "runtime/comm", "runtime/execute"}},
      {"train/checkpoint", {"weft::train"}, {}},
      {"train/config", {"weft::train"}, {}},
      {"train/data", {"weft::train"}, {}},
      {"train/step", {"weft::train"}, {}},
      {"train/measure", {"weft::train"}, {}},
      {"train/run", {"weft::train"}, {}},
      {"train", {"weft::train"}, {}},
      {"study", {"weft::study"}, {}},
      {"tools", {"weft::tools"}, {}},
  };
  return list;
}

/// The top folders that rooms lie in, and `more`.
inline std::vector<std::string> room_tops(const std::vector<std::string>& more = {}) {
  std::vector<std::string> list{"base",    "text",    "graph", "kernels", "ops",
                                "runtime", "inspect", "train", "study",   "tools"};
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

/// The place in the list of the room that a file lies in; the list's size if it lies in none.
inline std::size_t room_of(std::string_view file) {
  std::size_t best = rooms().size();
  for (std::size_t i = 0; i < rooms().size(); ++i) {
    const std::string& folder = rooms()[i].folder;
    if (!file.starts_with(folder + "/")) continue;
    if (best == rooms().size() || folder.size() > rooms()[best].folder.size()) best = i;
  }
  return best;
}

}  // namespace weft::testing
