// Sets of time on one clock: what overlap, exposed communication and idle time are computed from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

/// [begin, end), in nanoseconds.
struct Interval {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A set of times: intervals that are not empty, don't touch and rise.
using Intervals = std::vector<Interval>;

/// The union of intervals in any order; empty ones are dropped.
Intervals merged(Intervals intervals);

/// Of two sets: times in both, and times in `a` but not in `b`. Linear in their sizes.
Intervals intersection(const Intervals& a, const Intervals& b);
Intervals difference(const Intervals& a, const Intervals& b);

std::int64_t total_length(std::span<const Interval> intervals);

}  // namespace weft
