// The progress of a run on the console.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/status_line.h"
#include "base/units.h"
#include "train/run/metrics.h"

namespace weft::train {

/// Step, loss, validation loss on steps that have one, gradient norm, learning rate, rate, share of the machine's
/// arithmetic if it is known, time left:
///   " 42% 84/200  loss 2.3456  norm 0.98  lr 1.0e-03  61.2K tok/s  MFU 41%  ETA 0:32"
/// Without the bar it takes less than 80 columns: norm, learning rate and MFU go first, in this order.
/// `steps`: of the whole run; `elapsed`: seconds since the run started at step `first_step`.
Status progress_status(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed);

/// The steps that a log has a line of: the first and the last, each that evaluated, and one every ten seconds or every
/// `log_every` steps.
class LoggedSteps {
 public:
  LoggedSteps(std::int64_t steps, std::int64_t log_every) : steps_(steps), every_(log_every) {}
  /// To be asked once a step; `elapsed`: as in Progress::update().
  bool has(const StepMetrics& metrics, double elapsed);

 private:
  std::int64_t steps_, every_;
  std::optional<double> latest_;
};

/// The bar of an evaluation: on a terminal ten times a second at most, elsewhere a line every ten seconds.
class EvaluationBar {
 public:
  /// `line` must outlive this object.
  explicit EvaluationBar(StatusLine& line) : line_(line) {}
  /// Before each batch, and after the last.
  void show(std::int64_t done, std::int64_t batches);

 private:
  using Clock = std::chrono::steady_clock;
  StatusLine& line_;
  Clock::time_point begun_at_ = {}, shown_at_ = {};
};

/// The status of a run's steps and evaluations: on a terminal always the latest, elsewhere (a log file) lines for
/// LoggedSteps.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t steps, std::int64_t log_every)
      : first_step_(first_step), steps_(steps), log_every_(log_every), logged_(steps, log_every) {}
  /// Writes to `out` instead of standard error.
  Progress(std::int64_t first_step, std::int64_t steps, std::int64_t log_every, std::FILE* out)
      : line_(true, out), first_step_(first_step), steps_(steps), log_every_(log_every), logged_(steps, log_every) {}
  /// Keeps the latest status on the console.
  ~Progress() { line_.keep(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step; `elapsed`: seconds since the first began.
  void update(const StepMetrics& metrics, double elapsed);
  /// During an evaluation, as EvaluationBar::show().
  void evaluating(std::int64_t done, std::int64_t batches) { evaluation_.show(done, batches); }
  /// A line of text above the status ("checkpoint written").
  void message(const std::string& text) { line_.print(text); }

 private:
  StatusLine line_;
  std::int64_t first_step_, steps_, log_every_;
  LoggedSteps logged_;
  EvaluationBar evaluation_{line_};
};

}  // namespace weft::train
