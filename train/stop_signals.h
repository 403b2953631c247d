// SIGINT and SIGTERM ask a run to finish its step, save and leave; a second one ends it at once.
#pragma once

namespace weft {

/// While it lives, the two signals are remembered instead of ending the process. One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that arrived, or 0. Any thread may ask.
  static int received();
};

}  // namespace weft
