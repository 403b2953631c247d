#include "runtime/cost/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace weft::cost {
namespace fs = std::filesystem;

constexpr std::string_view kKept = "overlap/";  // machines of OverlapBench, which stay as they are

double Machine::congestion_of(std::int64_t nodes) const {
  Congestion before{1, 1.0};
  for (const Congestion& point : congestion) {
    if (nodes < point.nodes) {
      const auto logarithm = [](std::int64_t n) { return std::log2(static_cast<double>(n)); };
      const double part =
          (logarithm(nodes) - logarithm(before.nodes)) / (logarithm(point.nodes) - logarithm(before.nodes));
      return before.factor + part * (point.factor - before.factor);
    }
    before = point;
  }
  return before.factor;
}

Machine with_attention_of(Machine machine, std::string_view library) {
  const auto has_library = [&](const AttentionPoint& point) { return point.library == library; };
  if (library.empty() || std::ranges::none_of(machine.attention, has_library)) return machine;
  std::erase_if(machine.attention, [&](const AttentionPoint& point) { return !has_library(point); });
  for (AttentionPoint& point : machine.attention) point.library.clear();
  return machine;
}

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path().parent_path() / "share" / "weft" / "machines");
  // The Python module is a library of another program, and has the files beside it.
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&machine_folders), &here) != 0 && here.dli_fname != nullptr) {
    const fs::path library = here.dli_fname;
    if (library.is_absolute() && library != program) folders.push_back(library.parent_path() / "machines");
  }
  if (constexpr std::string_view tree = WEFT_MACHINES; !tree.empty()) folders.emplace_back(tree);
  return folders;
}

Machine find_machine(const std::string& name_or_path, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path kept = folder / (name_or_path + ".toml");
    if (name_or_path.starts_with(kKept) && fs::is_regular_file(kept, error)) return load_machine(kept.string());
  }
  const bool path = name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos;
  if (path) return load_machine(name_or_path);
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() != ".toml") continue;
      if (entry->path().stem() == name_or_path) return load_machine(entry->path().string());
      names.push_back(entry->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::string nearest = nearest_name(name_or_path, names);
  throw UserError(fmt::format("unknown machine \"{}\"", name_or_path), "one of " + join(names) + ", or a TOML file",
                  nearest.empty() ? std::string("give the path of a file as docs/machines.md describes it")
                                  : fmt::format("did you mean --machine {}?", nearest));
}

}  // namespace weft::cost
