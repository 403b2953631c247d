// Recordings without a device: the outermost operators of each CPU thread are the work, gloo's collectives run beside
// them on threads of their own, and the time between a thread's operators is the host's.
#pragma once

#include "inspect/import/device_edges.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/host_work.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// Fills `ops` and `collectives` from `operators`. An operator that only encloses a node of the backward pass is looked
/// into, and one that only waits for a collective is no work.
void take_operators_as_work(DeviceTrace& trace);

struct CpuWork {
  DeviceEdges edges;  // of threads, and from operators to the collectives that they asked for
  HostWork host;      // the time between operators; waits for collectives that ended in it
};

CpuWork recover_cpu_work(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
