// The rooms of the house: folders in the order in which they may know each other, each with its namespace.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing {

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
