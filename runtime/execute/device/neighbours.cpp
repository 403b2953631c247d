#include "runtime/execute/device/neighbours.h"

#include <algorithm>

namespace weft {
namespace {

bool conflict(const Neighbour& a, const Neighbour& b) {
  return std::ranges::any_of(a.touches, [&](const Touch& of_a) {
    return std::ranges::any_of(b.touches, [&](const Touch& of_b) {
      return (of_a.writes || of_b.writes) && overlap(of_a.window, of_b.window);
    });
  });
}

}  // namespace

std::vector<NeighbourRun> runs_of_neighbours(std::span<const Neighbour> entries) {
  std::vector<NeighbourRun> runs;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin + 1;
    const auto joins = [&](const Neighbour& next) {
      return next.kind == entries[begin].kind && !next.waits && !entries[end - 1].signals &&
             std::ranges::none_of(entries.subspan(begin, end - begin),
                                  [&](const Neighbour& other) { return conflict(other, next); });
    };
    while (end < entries.size() && joins(entries[end])) ++end;
    if (end - begin > 1) runs.push_back({begin, end});
    begin = end;
  }
  return runs;
}

}  // namespace weft
