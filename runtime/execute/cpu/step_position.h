// The position of a running step, for the watchdog; may be read while its threads work.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/execute/cpu/cpu_plan.h"

namespace weft::execute {

/// Entries that were finished since the plan was loaded, on all streams.
std::uint64_t finished_entries(const CpuPlan& loaded);

/// One line per stream, each after a line break: its position and its waits.
std::string describe_position(const CpuPlan& loaded);

}  // namespace weft::execute
