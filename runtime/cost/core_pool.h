// Cores that several ranks share: a rank that computes beside another one of its pool may get a part of a core.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::cost {

/// Ranks that together may use `cores` cores, fewer than they have threads.
struct CorePool {
  std::vector<std::int64_t> ranks;
  std::int64_t cores = 1;
  friend bool operator==(const CorePool&, const CorePool&) = default;
};

}  // namespace weft::cost
