// A recording in Perfetto's own format (https://perfetto.dev/docs/reference/trace-packet-proto): all ranks in one file,
// a fraction of the JSON's size, without its rules for ids.
#pragma once

#include "inspect/formats/chrome_trace.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// A track for each rank; below it, in this order: steps, streams, scratch memory, bytes in flight. Slices as in
/// write_chrome_trace(), with what is said of a task as debug annotations; an arrow for each wait between streams; one
/// category a kind. Nanoseconds since the first step's begin. Throws as write_chrome_trace() does.
void write_perfetto_trace(const plan::Recording& recording, const TextSink& sink);

}  // namespace weft::inspect
