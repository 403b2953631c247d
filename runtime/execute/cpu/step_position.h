// How far a running step is, for the watchdog: read while its threads go on.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/execute/cpu/cpu_plan.h"

namespace weft::execute {

/// Entries that were finished since the plan was loaded, on all streams.
std::uint64_t finished_entries(const CpuPlan& loaded);

/// A line a stream, each after a line break: where it stands and what it waits for.
std::string describe_position(const CpuPlan& loaded);

}  // namespace weft::execute
