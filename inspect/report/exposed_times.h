// How much of each collective is exposed.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/recording.h"

namespace weft::inspect {

/// By task, in nanoseconds: how long it communicates while nothing computes; 0 for computations.
std::vector<std::int64_t> exposed_times(const plan::Recording& recording, const plan::RecordedStep& step);

}  // namespace weft::inspect
