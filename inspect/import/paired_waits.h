// Waits between streams, from nothing but the order of calls on CPU threads: cudaEventRecord and cudaStreamWaitEvent
// name neither an event nor a stream in most traces.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// `to` waited for `from`; indices into a timeline's ops, on two streams.
struct PairedWait {
  std::uint32_t from = 0, to = 0;
  double confidence = 1;
};

/// A call of cudaEventRecord is about what its thread launched last; a second one after a collective, about the last
/// computation. A call of cudaStreamWaitEvent is about the stream of its thread's next launch. Which event it waits for
/// is told, in this order, by
/// 1. a record right before it, if events of computations aren't awaited in turn anyway; and bytes: a sum over some
///    ranks goes on as one of as many bytes over others, in the same micro-batch, layer and phase;
/// 2. times: the awaited work ended just when the waiting work began, and nothing else explains that begin;
/// 3. marks: the first event of the same micro-batch, layer and phase;
/// 4. turns: the oldest event of a stream that no work has waited for. Computations wait for collectives, and these for
///    computations, as long as there are such events; then for the last computation, which other work awaits, too. Of
///    several streams, one that visibly held up the waiting one before counts, then the one whose event is the newest.
/// No forward pass waits for work that is marked as the backward pass of its micro-batch. A wait that the times deny is
/// never told.
std::vector<PairedWait> pair_waits(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
