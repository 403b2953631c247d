// How long a transport waits for the other ranks, and for its device.
#pragma once

namespace weft::execute {

/// In seconds.
struct TransportLimits {
  double peers_come = 120;  // to a start, a split, a first collective
  double peers_leave = 10;  // at the end of a run that went well
  double release = 30;      // of the device's collectives, after a failure; then the process ends
};

}  // namespace weft::execute
