// The signals and the time limit that end a run before its last step. On SIGINT or SIGTERM a run says so, finishes its
// step, saves and ends; a second signal ends it at once. With --max-time a run stops training early enough for its last
// evaluation. Its learning rate has decayed by then.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

namespace weft::train {

/// While one lives, the two signals are remembered instead of ending the process. A second signal of either kind ends
/// it as if none lived; launchers and `timeout` send theirs twice, so one within 50 ms is taken as the first. Each rank
/// of a process holds one: the first arms the handlers, the last gives them back to the system.
class StopSignals {
 public:
  /// `says`: written to standard error by the first signal itself, however long the step takes; "": nothing. It must
  /// live as long as the process; of several the first that isn't empty counts.
  explicit StopSignals(std::string_view says = "");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that arrived since the first was made, or 0. Any thread may ask.
  static int received();
};

/// Tracks the longest step and evaluation so far. Times are seconds since the beginning of the run.
///
///   TimeLimit limit(60);
///   limit.evaluation_took(2);
///   limit.step_took(1);
///   limit.ends_training(55.5);  // false: one more step and an evaluation of up to 1.5 · 2 s fit in
///   limit.ends_training(56.5);  // true: the last step ends at 57.5
///   limit.begin_decay(6);
///   limit.decay_share(31);      // 0.5: from 6 to 56
class TimeLimit {
 public:
  /// 0: no limit. `decay_before`: seconds of the decay in the runs that this one continues.
  explicit TimeLimit(double seconds, double decay_before = 0) : seconds_(seconds), decay_before_(decay_before) {}

  void evaluation_took(double seconds) { evaluation_ = std::max(evaluation_, seconds); }
  void step_took(double seconds) { step_ = std::max(step_, seconds); }

  /// Whether the step that starts now should be the last.
  bool ends_training(double elapsed) const { return seconds_ > 0 && elapsed > end_of_training(); }
  /// Whether an evaluation must end early.
  bool is_up(double elapsed) const { return seconds_ > 0 && elapsed > seconds_; }

  /// The warm-up is over. Later calls change nothing.
  void begin_decay(double elapsed) {
    if (seconds_ > 0 && !decay_begin_) decay_begin_ = elapsed;
  }
  /// Seconds of the decay under limits, those of earlier runs included.
  double decay_seconds(double elapsed) const {
    return decay_before_ + (decay_begin_ ? std::max(0.0, elapsed - *decay_begin_) : 0.0);
  }
  /// The share of the decay that is over, so that it ends with the training; 0 before it begins.
  double decay_share(double elapsed) const {
    if (!decay_begin_) return 0;
    const double all = decay_seconds(end_of_training());
    return all > 0 ? std::min(1.0, decay_seconds(elapsed) / all) : 1.0;
  }

 private:
  double end_of_training() const {
    return seconds_ - std::min(kReserve * evaluation_, kLargestReserve * seconds_) - step_;
  }

  // The reserve for the last evaluation is 1.5 times the longest evaluation, but at most 0.1 of the limit.
  static constexpr double kReserve = 1.5, kLargestReserve = 0.1;

  double seconds_, decay_before_, evaluation_ = 0, step_ = 0;
  std::optional<double> decay_begin_;
};

}  // namespace weft::train
