// Finds ranks that have to share cores: processes on one machine that may run on the same, too few cores.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"

namespace weft::execute {

/// A rank's cores: the machine that runs it, as one number, and the cores that the system allows it, as another.
struct AllowedCores {
  std::uint64_t machine = 0, which = 0;
  std::int64_t cores = 1;
};

/// Of this process. Without /proc, a machine of its own.
AllowedCores allowed_cores(int rank);

/// Ranks on one machine with equal cores form a pool, if they have more threads than cores. `by_rank` has them all.
std::vector<cost::CorePool> pools_of(const std::vector<AllowedCores>& by_rank, std::int64_t threads);

/// The pools of the world's ranks, each of `threads` threads. Collective over the world.
std::vector<cost::CorePool> shared_cores(comm::World& world, std::int64_t threads);

/// Whether one of the pools has the rank.
bool are_shared(const std::vector<cost::CorePool>& pools, std::int64_t rank);

/// In how many turns the ranks of the pools compute if no two ranks share a core, and in which of them a rank does.
struct Turns {
  std::int64_t count = 1, own = 0;
};
Turns turns_of(const std::vector<cost::CorePool>& pools, std::int64_t rank, std::int64_t threads);

}  // namespace weft::execute
