// Which neighbours on a stream a device may run as one task.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/execute/device/access_log.h"

namespace weft {

/// An entry of a stream.
struct Neighbour {
  std::size_t kind = 0;  // of its operation
  bool waits = false, signals = false;
  std::vector<Touch> touches;
};

/// Entries [begin, end).
struct NeighbourRun {
  std::size_t begin = 0, end = 0;
};

/// The longest runs of two and more neighbours of one kind of which only the first waits, only the last signals, and
/// none touches bytes that another writes: not even those of a tensor that was there before.
std::vector<NeighbourRun> runs_of_neighbours(std::span<const Neighbour> entries);

}  // namespace weft
