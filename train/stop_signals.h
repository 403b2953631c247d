// SIGINT and SIGTERM ask a run to finish its step, save and leave; a second one ends it at once.
#pragma once

namespace weft::train {

/// While one lives, the two signals are remembered instead of ending the process. Each rank of a process holds one: the
/// first arms the handlers, the last gives them back to the system.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that arrived since the first was made, or 0. Any thread may ask.
  static int received();
};

}  // namespace weft::train
