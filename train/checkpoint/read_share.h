// Ranks that see the same files share the work of reading them through.
#pragma once

#include <filesystem>

#include "runtime/comm/communicator.h"

namespace weft::train {

/// A rank's place among those that share.
struct ReadShare {
  int rank = 0, ranks = 1;

  /// Whether it falls to this rank to read piece `number`.
  bool has(std::int64_t number) const { return number % ranks == rank; }
};

/// What ranks compare to find out whether `path` is one file or folder for them: equal on processes of one machine that
/// reach it through one mount. 0 where it isn't.
std::uint64_t file_identity(const std::filesystem::path& path);

/// The ranks for which `path` is the same file or folder. Those of other machines have to read for themselves: a copy
/// may be damaged, and a shared disk isn't told apart from copies. Collective over the world; the paths may differ.
ReadShare share_reading(comm::World& world, const std::filesystem::path& path);

}  // namespace weft::train
