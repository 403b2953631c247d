#include "runtime/cost/link_shares.h"

namespace weft::cost {

double LinkShares::level_of(const std::vector<double>& uses) {
  // Whoever needs less than an equal share of the link leaves the rest to the others, whose equal share grows.
  double level = 0;
  for (bool grew = true; grew;) {
    double needed = 0;
    std::size_t greedy = 0;
    for (const double use : uses) {
      if (use <= level) {
        needed += use;
      } else {
        ++greedy;
      }
    }
    if (greedy == 0) return 1;
    const double next = (1 - needed) / static_cast<double>(greedy);
    grew = next > level;
    if (grew) level = next;
  }
  return level;
}

}  // namespace weft::cost
