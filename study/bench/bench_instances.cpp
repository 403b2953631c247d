#include "study/bench/bench_instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/text_file.h"
#include "inspect/formats/graph_file.h"

namespace weft::study {
namespace {

constexpr std::string_view kConfiguration = ".toml", kGraph = ".graph.json", kPackedGraph = ".graph.json.gz";

/// "gpt2" of gpt2.toml or gpt2.graph.json.gz; "" of other files.
std::string instance_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (const std::string_view end : {kPackedGraph, kGraph, kConfiguration}) {
    if (!name.ends_with(end)) continue;
    name.resize(name.size() - end.size());
    return name;
  }
  return "";
}

/// The comment in which a configuration begins, up to its first full stop.
std::string first_comment(const std::filesystem::path& file) {
  constexpr std::size_t kMost = 1 << 20;
  const std::string text = read_text_file(file, "the instance", kMost, "a configuration", "see bench/overlap");
  std::string about;
  for (std::string_view rest = text; rest.starts_with('#');) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t word = line.find_first_not_of("# ");
    if (word == std::string_view::npos) break;
    about += about.empty() ? "" : " ";
    about += line.substr(word);
    if (about.ends_with('.')) break;
  }
  return about;
}

}  // namespace

bool BenchInstance::is_graph() const {
  return inspect::is_graph_file(file);
}

std::vector<BenchInstance> bench_instances(const std::filesystem::path& folder, std::span<const std::string> wanted) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(fmt::format("{} is no folder", folder.string()), "a folder of instances",
                    "run it from Weft's folder, or name one with --instances");
  }
  std::vector<BenchInstance> instances;
  std::vector<std::string> known;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::string name = instance_name(entry.path()); !name.empty()) {
      known.push_back(name);
      instances.push_back({std::move(name), entry.path()});
    }
  }
  std::ranges::sort(known);
  std::ranges::sort(instances, {}, [](const BenchInstance& each) { return std::pair(each.name, each.file); });
  if (const auto twice = std::ranges::adjacent_find(known); twice != known.end()) {
    throw UserError(fmt::format("{}: two instances are called {}", folder.string(), *twice), "one file each",
                    "rename one of them");
  }
  if (known.empty()) {
    throw UserError(fmt::format("{} has no instances", folder.string()), "files NAME.toml or NAME.graph.json",
                    "name another folder with --instances");
  }
  for (const std::string& name : wanted) {
    if (std::ranges::binary_search(known, name)) continue;
    const std::string nearest = nearest_name(name, known);
    throw UserError(fmt::format("no instance {} in {}", name, folder.string()), fmt::format("one of {}", join(known)),
                    nearest.empty() ? "choose one of them" : fmt::format("write {}", nearest));
  }
  if (!wanted.empty()) {
    std::erase_if(instances,
                  [&](const BenchInstance& each) { return std::ranges::find(wanted, each.name) == wanted.end(); });
  }
  for (BenchInstance& each : instances) {
    if (!each.is_graph()) each.about = first_comment(each.file);
  }
  return instances;
}

}  // namespace weft::study
