// Waits between streams, from nothing but the order of calls on CPU threads: cudaEventRecord and cudaStreamWaitEvent
// name neither an event nor a stream in most traces.
#pragma once

#include <vector>

#include "inspect/import/step_edges.h"

namespace weft::inspect {

/// A call of cudaEventRecord is about what its thread launched last; a second one after a collective, about the last
/// computation. A call of cudaStreamWaitEvent is about the stream of its thread's next launch. For which event it waits
/// is searched for all waits of the step together (find_waits()): by times, by marks, and by what the step's other
/// waits are for. A wait for an event of another step has no pair. A wait that the times deny is never told. Edges are
/// between ops of two streams.
std::vector<FoundEdge> pair_waits(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
