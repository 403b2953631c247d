// What a file system has left, asked before a large write is begun.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace weft {

/// Room that is asked for and that there is, in bytes, at `where`, the nearest folder that exists.
struct SpaceCheck {
  std::filesystem::path where;
  std::uint64_t needed = 0, free = 0;

  bool fits() const { return needed <= free; }
  /// "needs 1240032 bytes (1.18 MiB), but '/data' has 4096 bytes (4.00 KiB) free".
  std::string text() const;
};

/// Compares what files of these sizes take below `folder`, which need not exist, in whole blocks and with two blocks
/// for the folder itself, with what this user may still write there. Throws RuntimeFault if the system doesn't say.
SpaceCheck check_space(const std::filesystem::path& folder, std::span<const std::uint64_t> file_sizes);

}  // namespace weft
