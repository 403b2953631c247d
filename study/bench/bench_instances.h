// The instances of OverlapBench: steps on which policies are compared, each a file of a folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::study {

/// A configuration (NAME.toml) or an open graph (NAME.graph.json, NAME.graph.json.gz).
struct BenchInstance {
  std::string name;
  std::filesystem::path file;
  std::string about = {};  // a configuration's first comment

  bool is_graph() const;
};

/// The instances of a folder, by name; with `wanted`, those names alone. Throws UserError if there are none, if two
/// have one name, or if a wanted one isn't there.
std::vector<BenchInstance> bench_instances(const std::filesystem::path& folder,
                                           std::span<const std::string> wanted = {});

}  // namespace weft::study
