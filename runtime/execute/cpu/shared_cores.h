// Finds ranks that have to share cores: processes on one machine that may run on the same, too few cores.
#pragma once

#include <cstdint>
#include <vector>

#include "base/allowed_cores.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/machine.h"

namespace weft::execute {

/// Ranks on one machine with equal cores form a pool, if they have more threads than cores. `by_rank` has them all.
std::vector<cost::CorePool> pools_of(const std::vector<AllowedCores>& by_rank, std::int64_t threads);

/// The pools of the world's ranks, each of `threads` threads. Collective over the world.
std::vector<cost::CorePool> shared_cores(comm::World& world, std::int64_t threads);

/// Threads for each rank, so that none waits for another's: ranks with equal cores divide them. The least of all ranks,
/// 1 at least.
std::int64_t threads_for_all(const std::vector<AllowedCores>& by_rank);
/// Collective over the world.
std::int64_t threads_for_all(comm::World& world);

/// Whether one of the pools has the rank.
bool are_shared(const std::vector<cost::CorePool>& pools, std::int64_t rank);

/// In how many turns the ranks of the pools compute if no two ranks share a core, and in which of them a rank does.
struct Turns {
  std::int64_t count = 1, own = 0;
};
Turns turns_of(const std::vector<cost::CorePool>& pools, std::int64_t rank, std::int64_t threads);

}  // namespace weft::execute
