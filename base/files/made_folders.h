// Folders that have to be made before it is known whether anything will be put there.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace weft {

/// Remembers which folders it made; those that are empty when it ends are gone again.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  /// Makes `folder` and those above it, as far as they aren't there. Whether it is new: of several processes that try
  /// at once, one is told so.
  bool make(const std::filesystem::path& folder, std::error_code& error);

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

}  // namespace weft
