#include "runtime/execute/cpu/shared_cores.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

namespace weft::execute {
namespace {

/// All ranks by their machine and their cores.
auto all_pools(const std::vector<AllowedCores>& by_rank) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, cost::CorePool> pools;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const AllowedCores& allowed = by_rank[rank];
    cost::CorePool& pool = pools[{allowed.machine, allowed.which}];
    pool.ranks.push_back(static_cast<std::int64_t>(rank));
    pool.cores = allowed.cores;
  }
  return pools;
}

}  // namespace

std::vector<cost::CorePool> pools_of(const std::vector<AllowedCores>& by_rank, std::int64_t threads) {
  std::vector<cost::CorePool> scarce;
  for (auto& [key, pool] : all_pools(by_rank)) {
    if (std::ssize(pool.ranks) > 1 && std::ssize(pool.ranks) * threads > pool.cores) scarce.push_back(std::move(pool));
  }
  std::ranges::sort(scarce, {}, [](const cost::CorePool& pool) { return pool.ranks.front(); });
  return scarce;
}

std::vector<cost::CorePool> shared_cores(comm::World& world, std::int64_t threads) {
  return pools_of(comm::of_ranks(world, allowed_cores(world.rank())), threads);
}

std::int64_t threads_for_all(const std::vector<AllowedCores>& by_rank) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [key, pool] : all_pools(by_rank)) least = std::min(least, pool.cores / std::ssize(pool.ranks));
  return std::max<std::int64_t>(1, least);
}

std::int64_t threads_for_all(comm::World& world) {
  return threads_for_all(comm::of_ranks(world, allowed_cores(world.rank())));
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
