// When a run with --max-time has to stop training, so that its last evaluation ends in time too.
#pragma once

#include <algorithm>

namespace weft::train {

/// Knows how long steps and evaluations took so far. In seconds, from the beginning of the run.
///
///   TimeLimit limit(60);
///   limit.evaluation_took(2);
///   limit.step_took(1);
///   limit.ends_training(55.5);  // false: one more step and an evaluation of up to 1.5 · 2 s fit in
///   limit.ends_training(56.5);  // true: the step that learns of it ends at 57.5
class TimeLimit {
 public:
  /// 0: no limit.
  explicit TimeLimit(double seconds) : seconds_(seconds) {}

  void evaluation_took(double seconds) { evaluation_ = std::max(evaluation_, seconds); }
  void step_took(double seconds) { step_ = std::max(step_, seconds); }

  /// Whether the step that starts now is to be the last one.
  bool ends_training(double elapsed) const {
    const double kept = std::min(kReserve * evaluation_, kLargestReserve * seconds_);
    return seconds_ > 0 && elapsed > seconds_ - kept - step_;
  }
  /// Whether an evaluation has to be cut short.
  bool is_up(double elapsed) const { return seconds_ > 0 && elapsed > seconds_; }

 private:
  // Of the time that an evaluation took, and at most of the limit: an evaluation that long is cut short.
  static constexpr double kReserve = 1.5, kLargestReserve = 0.1;

  double seconds_, evaluation_ = 0, step_ = 0;
};

}  // namespace weft::train
