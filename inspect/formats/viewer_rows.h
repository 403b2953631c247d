// Rules that viewers of traces have for slices and arrows, whatever the format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/plan/trace.h"

namespace weft::inspect {

/// A row of a viewer, which is a stack: slices that cross lose their lengths, empty ones vanish.
class ViewerRow {
 public:
  /// After the slices that the row shows already, and 1 ns long at least.
  plan::TaskTime place(const plan::TaskTime& time) {
    const std::int64_t begin = std::max(time.begin, free_from_);
    free_from_ = std::max(time.end, begin + 1);
    return {begin, free_from_};
  }

 private:
  std::int64_t free_from_ = INT64_MIN;
};

/// Where an arrow to the begin of a placed slice leaves the slice `from`: inside of it and not after its head, else the
/// viewer drops it. None: it would go back in time.
inline std::optional<std::int64_t> arrow_tail(const plan::TaskTime& from, const plan::TaskTime& to) {
  const std::int64_t at = std::min(from.end - 1, to.begin);
  return at >= from.begin ? std::optional(at) : std::nullopt;
}

}  // namespace weft::inspect
