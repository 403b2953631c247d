// The uses of a rank's memory, known before anything is allocated.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Bytes of one rank by role. For roles of state: the total. For roles of scratch: the peak over the plan's order.
/// Roles peak at different moments, so the scratch roles may add up to more than `arena`, the bytes that the plan
/// allocates.
struct MemoryReport {
  std::array<std::int64_t, graph::kRoles> bytes{};  // by role
  std::int64_t state = 0, arena = 0;

  std::int64_t of(graph::Role role) const { return bytes[static_cast<std::size_t>(role)]; }
  std::int64_t total() const { return state + arena; }
};

MemoryReport memory_report(const Plan& plan);

}  // namespace weft::plan
