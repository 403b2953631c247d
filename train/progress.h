// The line of a run on the console.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "train/metrics.h"

namespace weft {

/// One line: bar, step, loss, validation loss on steps that have one, gradient norm, learning rate, rate, time left.
///   " 42% [========>           ]  84/200  loss 2.3456  norm 0.98  lr 1.0e-03  61.2K tok/s  ETA 0:32"
/// `steps_done` of `steps`, `elapsed` seconds since the run went on from step `first_step`.
std::string progress_line(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed);

/// Prints progress lines: on a terminal one that is rewritten in place, elsewhere (a log file) a line for the first and
/// the last step, for each that evaluated, and every `interval` seconds.
class Progress {
 public:
  Progress(std::FILE* out, bool terminal, std::int64_t first_step, std::int64_t steps, double interval = 10);
  /// Ends the line that is being rewritten.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step; `elapsed`: seconds since the first began.
  void update(const StepMetrics& metrics, double elapsed);
  /// A line of text above the progress line ("checkpoint written").
  void message(const std::string& text);

 private:
  std::FILE* out_;
  bool terminal_;
  std::int64_t first_step_, steps_;
  double interval_, printed_at_ = 0;
  bool first_ = true;
  std::string line_;  // on the terminal now, without a newline
};

}  // namespace weft
