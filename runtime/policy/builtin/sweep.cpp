#include "runtime/policy/builtin/sweep.h"

#include <utility>

namespace weft::policy {

Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds) {
  Swept best{priority, forward.run(priority)};
  for (int round = 0; round < rounds; ++round) {
    backward.run(forward.finishes());
    priority.assign(backward.finishes().begin(), backward.finishes().end());
    const double makespan = forward.run(priority);
    if (makespan < best.makespan) best = {priority, makespan};
  }
  return best;
}

}  // namespace weft::policy
