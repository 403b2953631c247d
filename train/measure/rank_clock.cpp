#include "train/measure/rank_clock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/median.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostCalls = 1e5;  // in a repeat

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

OverRanks over_ranks(comm::World& world, double value) {
  const std::vector<double> all = comm::of_ranks(world, value);
  return {std::accumulate(all.begin(), all.end(), 0.0) / world.size(), std::ranges::max(all)};
}

OverRanks RankClock::measure(const std::function<void()>& function) {
  function();  // touches its memory, and opens connections
  world_.barrier();
  Clock::time_point begin = Clock::now();
  function();
  // All ranks make the same number of calls.
  const double once = std::max(over_ranks(world_, since(begin)).greatest, 1e-9);
  const auto calls = static_cast<std::int64_t>(std::clamp(least_seconds_ / once, 1.0, kMostCalls));
  std::vector<double> means, greatest;
  for (int repeat = 0; repeat < repeats_; ++repeat) {
    world_.barrier();
    begin = Clock::now();
    for (std::int64_t call = 0; call < calls; ++call) function();
    const OverRanks times = over_ranks(world_, since(begin) / static_cast<double>(calls));
    means.push_back(times.mean);
    greatest.push_back(times.greatest);
  }
  return {median(means), median(greatest)};
}

}  // namespace weft::train
