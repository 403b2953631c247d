// Folders that must be made before it is known whether they will hold anything.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace weft {

/// Remembers the folders that it made; its destructor removes the empty ones.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  /// Makes `folder` and its missing parents. Returns whether `folder` is new; if several processes make it at once,
  /// exactly one gets true.
  bool make(const std::filesystem::path& folder, std::error_code& error);

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

}  // namespace weft
