// Improves a list schedule by scheduling the step backward and forward in turn.
#pragma once

#include <vector>

#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

struct Swept {
  std::vector<double> priority;  // by task, of the best forward schedule
  double makespan = 0;
};

/// Schedules forward by `priority`, then `rounds` times backward, by the tasks' ends in the forward schedule, and
/// forward again, by their starts in the backward schedule. So a task that delays the end of the step through a busy
/// link gets a higher priority, which a longest path doesn't give it. Each round costs two list schedules. The result
/// is the shortest of these schedules, with `fits` of the schedules that fit (scheduling/limited_lists.h); its makespan
/// is infinite if none fits.
Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds,
            const FitsMemory& fits = {});

}  // namespace weft::policy
