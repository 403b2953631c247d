// The free space of a file system, checked before a large write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace weft {

/// Bytes needed and bytes free at `where`, the nearest existing folder.
struct SpaceCheck {
  std::filesystem::path where;
  std::uint64_t needed = 0, free = 0;

  bool fits() const { return needed <= free; }
  /// "needs 1240032 bytes (1.18 MiB), but '/data' has 4096 bytes (4.00 KiB) free".
  std::string text() const;
};

/// Compares the space that files of these sizes (bytes) need below `folder`, which need not exist, with the space that
/// this user may still write there. Files take whole blocks, and the folder itself two more. Throws RuntimeFault if the
/// system doesn't tell.
SpaceCheck check_space(const std::filesystem::path& folder, std::span<const std::uint64_t> file_sizes);

}  // namespace weft
