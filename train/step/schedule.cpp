// The warm-up and the four schedules.
#include "train/step/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::train {
namespace {

/// The progress of `at` from step `begin` to `end`, in [0, 1]; 1 for an empty range.
double progress(double at, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return 1.0;
  return std::clamp((at - static_cast<double>(begin)) / static_cast<double>(end - begin), 0.0, 1.0);
}

}  // namespace

double LearningRate::at(std::int64_t step, double decayed) const {
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double by_time = static_cast<double>(warmup) + decayed * static_cast<double>(steps - warmup);
  const double s = std::max(static_cast<double>(step), by_time);
  const double r = progress(s, warmup, steps);
  switch (schedule) {
    case Schedule::cosine:
      return min_lr + 0.5 * (1.0 + std::cos(std::numbers::pi * r)) * (lr - min_lr);
    case Schedule::linear:
      return lr - r * (lr - min_lr);
    case Schedule::constant:
      return lr;
    case Schedule::wsd: {
      // Integer arithmetic, because 0.8 isn't exact: floor(0.8 * 15) must be 12.
      const std::int64_t decay_begin = steps / 5 * 4 + steps % 5 * 4 / 5;
      if (s < static_cast<double>(decay_begin)) return lr;
      return min_lr + (1.0 - std::sqrt(progress(s, decay_begin, steps))) * (lr - min_lr);
    }
  }
  return lr;
}

}  // namespace weft::train
