// A recording as PyTorch's profiler would have recorded the run: kernels on streams, calls that launched them, events.
#pragma once

#include <cstddef>

#include "inspect/formats/chrome_trace.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

struct PytorchTraceOptions {
  /// Records of category cuda_sync, which PyTorch writes only where they are enabled (enable_cuda_sync_events).
  bool sync_records = false;
  /// Each launch lies in an operator with a record function id, by which an execution trace names it.
  bool operators = false;
};

/// Writes the rank at `index` of the recording and nothing that PyTorch doesn't write: no plan, no edges. Every task is
/// a kernel. One thread of the host makes the calls in the plan's order: cudaStreamWaitEvent for each wait between
/// streams, the launch, and cudaEventRecord after a task for which another stream waits; marks of phase, layer and
/// micro-batch lie around launches, as a program makes them with record_function(). Weft records no such calls, so
/// their times are made up: the host begins a step shortly before the device and stays ahead of it. Throws UserError if
/// the step has tasks of CPU threads.
void write_pytorch_trace(const plan::Recording& recording, std::size_t index, const PytorchTraceOptions& options,
                         const TextSink& sink);

/// The execution trace that PyTorch's ExecutionTraceObserver would have written beside that trace with operators: which
/// storages each task reads and writes. A recording has no storages but edges, so each task makes one for those that
/// read what it wrote, and each other edge of data within a step has one that both access. Edges of a policy and of the
/// memory planner are no data.
void write_execution_trace(const plan::Recording& recording, std::size_t index, const TextSink& sink);

}  // namespace weft::inspect
