// Horizontal fusion: which tasks that stand side by side on a stream a device may run as one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/execute/device/access_log.h"

namespace weft::execute {

/// An entry of a stream.
struct FusionCandidate {
  std::size_t kind = 0;  // of its operation
  bool waits = false, signals = false;
  std::vector<Touch> touches;
};

/// Entries [begin, end).
struct FusibleRun {
  std::size_t begin = 0, end = 0;
};

/// The longest runs of two and more tasks of one kind, side by side, of which only the first waits, only the last
/// signals, and none touches bytes that another writes: not even those of a tensor that was there before.
std::vector<FusibleRun> fusible_runs(std::span<const FusionCandidate> entries);

}  // namespace weft::execute
