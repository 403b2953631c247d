// The events of a trace: when each task ran on each rank in each step.
#pragma once

#include <cstdint>

#include "inspect/formats/json_pull.h"
#include "inspect/formats/recorded_table.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Reads the list of events into a recording whose table has been read. Refuses events of other tasks, ranks and steps,
/// tasks that run twice or never, times outside of their step, and more of them than a text of `most_bytes` has room
/// for, so that a short file can't ask for the memory of a long one.
void read_recorded_events(JsonPull& in, const RecordedTable& table, plan::Recording& out, std::uint64_t most_bytes);

}  // namespace weft::inspect
