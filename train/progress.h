// The progress of a run on the console.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/status_line.h"
#include "base/units.h"
#include "train/run/metrics.h"

namespace weft::train {

/// Step, loss, validation loss on steps that have one, gradient norm, learning rate, rate, time left:
///   " 42% [========>           ] 84/200  loss 2.3456  norm 0.98  lr 1.0e-03  61.2K tok/s  ETA 0:32"
/// `steps`: of the whole run; `elapsed`: seconds since the run started at step `first_step`.
Status progress_status(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed);

/// The status of a run's steps: on a terminal always the latest, elsewhere (a log file) a line for the first and the
/// last step, for each that evaluated, and every ten seconds.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t steps) : first_step_(first_step), steps_(steps) {}
  /// Writes to `out` instead of the default stream of status lines.
  Progress(std::int64_t first_step, std::int64_t steps, std::FILE* out)
      : line_(true, out), first_step_(first_step), steps_(steps) {}
  /// Keeps the latest status on the console.
  ~Progress() { line_.keep(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step; `elapsed`: seconds since the first began.
  void update(const StepMetrics& metrics, double elapsed);
  /// A line of text above the status ("checkpoint written").
  void message(const std::string& text) { line_.print(text); }

 private:
  StatusLine line_;
  std::int64_t first_step_, steps_;
  std::optional<double> printed_at_;
};

}  // namespace weft::train
