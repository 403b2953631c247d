// Ranks that see the same files share the work of reading them.
#pragma once

#include <filesystem>

#include "runtime/comm/communicator.h"

namespace weft::train {

/// A rank's index among the ranks that share.
struct ReadShare {
  int rank = 0, ranks = 1;

  /// Whether this rank reads piece `number`.
  bool has(std::int64_t number) const { return number % ranks == rank; }
};

/// A number that identifies a file or folder: equal on processes of one machine that reach it through one mount. 0 if
/// it doesn't exist.
std::uint64_t file_identity(const std::filesystem::path& path);

/// The ranks for which `path` is the same file or folder. Ranks on other machines read for themselves: a copy may be
/// damaged, and a shared disk can't be told from copies. Collective over the world; the paths may differ.
ReadShare share_reading(comm::World& world, const std::filesystem::path& path);

}  // namespace weft::train
