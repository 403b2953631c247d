#include "runtime/policy/builtin/sweep.h"

#include <limits>
#include <utility>

namespace weft::policy {

Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds,
            const FitsMemory& fits) {
  Swept best{priority, forward.run(priority)};
  if (fits && !fits(forward)) best.makespan = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    backward.run(forward.finishes());
    priority.assign(backward.finishes().begin(), backward.finishes().end());
    const double makespan = forward.run(priority);
    if (makespan < best.makespan && (!fits || fits(forward))) best = {priority, makespan};
  }
  return best;
}

}  // namespace weft::policy
