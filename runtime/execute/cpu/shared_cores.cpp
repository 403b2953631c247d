#include "runtime/execute/cpu/shared_cores.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/hash.h"

namespace weft::execute {

AllowedCores allowed_cores(int rank) {
  // Containers and network namespaces of one kernel have host names of their own, and this text in common.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  AllowedCores allowed;
  Fingerprint machine, which;
  if (std::getline(file, boot)) {
    machine.add_bytes(boot.data(), boot.size());
  } else {
    machine.add(static_cast<std::uint64_t>(rank));
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    which.add_bytes(&cores, sizeof cores);
    allowed.cores = std::max(1, CPU_COUNT(&cores));
  } else {
    which.add(static_cast<std::uint64_t>(rank));
  }
  allowed.machine = machine.value();
  allowed.which = which.value();
  return allowed;
}

std::vector<cost::CorePool> pools_of(const std::vector<AllowedCores>& by_rank, std::int64_t threads) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, cost::CorePool> pools;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const AllowedCores& allowed = by_rank[rank];
    cost::CorePool& pool = pools[{allowed.machine, allowed.which}];
    pool.ranks.push_back(static_cast<std::int64_t>(rank));
    pool.cores = allowed.cores;
  }
  std::vector<cost::CorePool> scarce;
  for (auto& [key, pool] : pools) {
    if (std::ssize(pool.ranks) > 1 && std::ssize(pool.ranks) * threads > pool.cores) scarce.push_back(std::move(pool));
  }
  std::ranges::sort(scarce, {}, [](const cost::CorePool& pool) { return pool.ranks.front(); });
  return scarce;
}

std::vector<cost::CorePool> shared_cores(comm::World& world, std::int64_t threads) {
  return pools_of(comm::of_ranks(world, allowed_cores(world.rank())), threads);
}

bool are_shared(const std::vector<cost::CorePool>& pools, std::int64_t rank) {
  return std::ranges::any_of(
      pools, [&](const cost::CorePool& pool) { return std::ranges::find(pool.ranks, rank) != pool.ranks.end(); });
}

Turns turns_of(const std::vector<cost::CorePool>& pools, std::int64_t rank, std::int64_t threads) {
  Turns turns;
  for (const cost::CorePool& pool : pools) {
    const std::int64_t at_once = std::max<std::int64_t>(1, pool.cores / threads), ranks = std::ssize(pool.ranks);
    turns.count = std::max(turns.count, (ranks + at_once - 1) / at_once);
    const auto found = std::ranges::find(pool.ranks, rank);
    if (found != pool.ranks.end()) turns.own = (found - pool.ranks.begin()) / at_once;
  }
  return turns;
}

}  // namespace weft::execute
