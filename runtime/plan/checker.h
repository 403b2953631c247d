// Proves that a plan is safe before it runs, or says what is wrong with it by name.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// One thing that is wrong, in words: "wait missing: b (compute0) reads x written by a (data) …".
struct Violation {
  enum class Kind : std::uint8_t { structure, missing_wait, memory_overlap, collective_order, deadlock };
  Kind kind;
  std::string message;
};

/// Replays two steps symbolically. Knows nothing of how the plan was made: recomputes everything from the graph.
/// - every task is in exactly one entry; collectives are on their channel's stream; waits name real entries;
/// - no deadlock: the two steps can be run to their end;
/// - every edge (distance 0 and 1) is implied by stream order and waits;
/// - two tensors share bytes only if every access of one happens before the first write of the other, also across
///   the boundary of steps;
/// - the streams' collectives are subsequences of the plan's one total order.
/// At most `limit` violations are returned; none means that the plan is safe.
std::vector<Violation> check_plan(const Plan& plan, std::size_t limit = 20);

/// Compares the total orders of collectives of several ranks (channel, kind, count, dtype and name, in order), and
/// says where they part first: "rank 1 issues b where rank 0 issues a (position 3)".
std::vector<Violation> check_collectives_across_ranks(std::span<const Plan* const> plans);

}  // namespace weft::plan
