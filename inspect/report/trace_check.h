// Did a traced run keep its plan? Measured times against the edges, the streams and the order of collectives.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/plan/recording.h"

namespace weft::inspect {

struct TraceCheck {
  std::size_t edges = 0, tasks = 0, collectives = 0;  // compared, over all ranks and steps
  std::size_t violations = 0;
  std::vector<std::string> messages;  // of the first ones, by rank and step
  bool holds() const { return violations == 0; }
};

/// Compares, in every step of every rank: each completes-before edge (its target begins no earlier than its source
/// ends; of distance 1 where the step before was traced), the order of each compute stream (no task begins before its
/// predecessor has ended; communication streams start in order), tasks against their step; and between ranks of one
/// step that collectives of a channel that all ranks join begin in the same order. Keeps at most `most` messages.
TraceCheck check_recording(const plan::Recording& recording, std::size_t most = 10);

}  // namespace weft::inspect
