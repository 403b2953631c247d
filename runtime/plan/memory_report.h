// What the memory of a rank is for, before anything is allocated.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Bytes of one rank by role: of state in all, of scratch at most at one moment of the plan's order. Roles peak at
/// different moments, so scratch roles may add up to more than `arena`, what the plan allocates for all of them.
struct MemoryReport {
  std::array<std::int64_t, graph::kRoles> bytes{};  // by role
  std::int64_t state = 0, arena = 0;

  std::int64_t of(graph::Role role) const { return bytes[static_cast<std::size_t>(role)]; }
  std::int64_t total() const { return state + arena; }
};

MemoryReport memory_report(const Plan& plan);

}  // namespace weft::plan
