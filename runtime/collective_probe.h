// What a collective takes from the computations beside it, and they from it: measured, since no trace tells.
#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"

namespace weft {

/// Of one collective, in nanoseconds; those of the slowest member.
struct CollectiveTimes {
  double alone = 0;   // from when all members have started it
  double beside = 0;  // beside a computation that calls progress() as the executor does
  double cpu = 0;     // how much longer that computation takes
};

/// Medians of `rounds` rounds (`cpu` is a difference of least times), each of which runs the collective alone, beside
/// matrix products on `threads` threads that last about 1.5 times as long, and these alone. Collective over the world,
/// which every group of `channel` takes part in at once; the buffers are the communicator's to overwrite.
CollectiveTimes probe_collective(World& world, Communicator& group, const CollectiveCall& call, int threads,
                                 int rounds);

}  // namespace weft
