#include "train/measure/rank_clock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/median.h"
#include "runtime/comm/of_ranks.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostCalls = 1e5;  // in a repeat

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

RankClock::Times RankClock::over_ranks(double value) {
  Times times;
  const std::vector<double> all = comm::of_ranks(world_, value);
  for (const double of_rank : all) {
    times.mean += of_rank / static_cast<double>(all.size());
    times.greatest = std::max(times.greatest, of_rank);
  }
  return times;
}

RankClock::Times RankClock::measure(const std::function<void()>& function) {
  function();  // touches its memory, and opens connections
  world_.barrier();
  Clock::time_point begin = Clock::now();
  function();
  // All ranks make the same number of calls.
  const double once = std::max(over_ranks(since(begin)).greatest, 1e-9);
  const auto calls = static_cast<std::int64_t>(std::clamp(least_seconds_ / once, 1.0, kMostCalls));
  std::vector<double> means, greatest;
  for (int repeat = 0; repeat < repeats_; ++repeat) {
    world_.barrier();
    begin = Clock::now();
    for (std::int64_t call = 0; call < calls; ++call) function();
    const Times times = over_ranks(since(begin) / static_cast<double>(calls));
    means.push_back(times.mean);
    greatest.push_back(times.greatest);
  }
  return {median(means), median(greatest)};
}

double RankClock::seconds(const std::function<void()>& function) {
  return measure(function).mean;
}

double RankClock::slowest_seconds(const std::function<void()>& function) {
  return measure(function).greatest;
}

}  // namespace weft::train
