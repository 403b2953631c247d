// The time at which a run with --max-time stops training, so that its last evaluation also ends in time.
#pragma once

#include <algorithm>

namespace weft::train {

/// Tracks the longest step and evaluation so far. Times are seconds since the beginning of the run.
///
///   TimeLimit limit(60);
///   limit.evaluation_took(2);
///   limit.step_took(1);
///   limit.ends_training(55.5);  // false: one more step and an evaluation of up to 1.5 · 2 s fit in
///   limit.ends_training(56.5);  // true: the last step ends at 57.5
class TimeLimit {
 public:
  /// 0: no limit.
  explicit TimeLimit(double seconds) : seconds_(seconds) {}

  void evaluation_took(double seconds) { evaluation_ = std::max(evaluation_, seconds); }
  void step_took(double seconds) { step_ = std::max(step_, seconds); }

  /// Whether the step that starts now should be the last.
  bool ends_training(double elapsed) const {
    const double kept = std::min(kReserve * evaluation_, kLargestReserve * seconds_);
    return seconds_ > 0 && elapsed > seconds_ - kept - step_;
  }
  /// Whether an evaluation must end early.
  bool is_up(double elapsed) const { return seconds_ > 0 && elapsed > seconds_; }

 private:
  // The reserve for the last evaluation is 1.5 times the longest evaluation, but at most 0.1 of the limit.
  static constexpr double kReserve = 1.5, kLargestReserve = 0.1;

  double seconds_, evaluation_ = 0, step_ = 0;
};

}  // namespace weft::train
