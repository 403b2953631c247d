// Times of what all ranks do at once.
#pragma once

#include <functional>

#include "runtime/comm/communicator.h"

namespace weft::train {

/// The mean of a value over the ranks, and the greatest one.
struct OverRanks {
  double mean = 0, greatest = 0;
};

/// Collective over the world.
OverRanks over_ranks(comm::World& world, double value);

/// All calls are collective over the world.
///
///   RankClock clock(world, 7, 0.02);
///   const double seconds = clock.seconds([&] { product.run(); });
class RankClock {
 public:
  /// Medians of `repeats`, each of which lasts at least `least_seconds`, approximately.
  RankClock(comm::World& world, int repeats, double least_seconds)
      : world_(world), repeats_(repeats), least_seconds_(least_seconds) {}

  /// Seconds of one call, the mean over the ranks.
  double seconds(const std::function<void()>& function) { return measure(function).mean; }
  /// The same of the slowest rank, for functions in which ranks wait for each other.
  double slowest_seconds(const std::function<void()>& function) { return measure(function).greatest; }

 private:
  OverRanks measure(const std::function<void()>& function);

  comm::World& world_;
  const int repeats_;
  const double least_seconds_;
};

}  // namespace weft::train
