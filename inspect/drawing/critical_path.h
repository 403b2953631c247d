// The chain of tasks that a recorded step's length comes from.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Indices into Recording::tasks, first to last. The last one ended last. Before each task stands the one that it
/// started after: of the tasks that it waits for and of the tasks before it on its stream, the task that ended last.
/// The work of other ranks isn't known: a collective that waited for a peer looks long instead.
std::vector<std::uint32_t> critical_path(const plan::Recording& recording, const plan::RecordedStep& step);

}  // namespace weft::inspect
