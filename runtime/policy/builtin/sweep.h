// Improves a list schedule by scheduling the step backward and forward in turn.
#pragma once

#include <vector>

#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

struct Swept {
  std::vector<double> priority;  // by task, of the best forward schedule
  double makespan = 0;
};

/// Schedules forward by `priority`, then `rounds` times backward by where tasks ended and forward by where they began
/// there: a task that the end of the step waits for through a busy link moves up, which no longest path shows. Each
/// round costs two list schedules. Never longer than the first schedule.
Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds);

}  // namespace weft::policy
