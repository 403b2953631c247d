// Sets of times on one clock, from which overlap, exposed communication and idle time are computed.
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

/// A set of times: non-empty intervals in ascending order that neither overlap nor touch.
using Intervals = std::vector<Interval>;

/// The union of intervals in any order; empty intervals are dropped.
Intervals merged(Intervals intervals);

/// The times in both sets, and the times in `a` but not in `b`. Linear in the sets' sizes.
Intervals intersection(const Intervals& a, const Intervals& b);
Intervals difference(const Intervals& a, const Intervals& b);

std::int64_t total_length(std::span<const Interval> intervals);

}  // namespace weft
