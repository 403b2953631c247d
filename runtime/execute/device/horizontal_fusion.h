// Horizontal fusion: the consecutive tasks of a stream that a device may run as one.
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

/// The longest runs of two or more consecutive tasks of one kind of which only the first waits, only the last signals,
/// and none touches bytes that another writes, not even as parts of different tensors that share memory.
std::vector<FusibleRun> fusible_runs(std::span<const FusionCandidate> entries);

}  // namespace weft::execute
