#include "runtime/execute/device/horizontal_fusion.h"

#include <algorithm>

namespace weft::execute {
namespace {

bool conflict(const FusionCandidate& a, const FusionCandidate& b) {
  return std::ranges::any_of(a.touches, [&](const Touch& of_a) {
    return std::ranges::any_of(b.touches, [&](const Touch& of_b) {
      return (of_a.writes || of_b.writes) && overlap(of_a.window, of_b.window);
    });
  });
}

}  // namespace

std::vector<FusibleRun> fusible_runs(std::span<const FusionCandidate> entries) {
  std::vector<FusibleRun> runs;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin + 1;
    const auto joins = [&](const FusionCandidate& next) {
      return next.kind == entries[begin].kind && !next.waits && !entries[end - 1].signals &&
             std::ranges::none_of(entries.subspan(begin, end - begin),
                                  [&](const FusionCandidate& other) { return conflict(other, next); });
    };
    while (end < entries.size() && joins(entries[end])) ++end;
    if (end - begin > 1) runs.push_back({begin, end});
    begin = end;
  }
  return runs;
}

}  // namespace weft::execute
