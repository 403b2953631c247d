// Proves that a plan is safe before it runs, or names its violations.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// One violation, with its description: "wait missing: b (compute0) reads x written by a (data) …".
struct Violation {
  enum class Kind : std::uint8_t {
    structure,
    missing_wait,
    memory_overlap,
    collective_order,
    deadlock,
    message,    // of pipeline stages (joint_check.h): ends of messages don't fit together
    one_queue,  // of pipeline stages: a deadlock where all communication of a rank shares one queue
  };
  Kind kind;
  std::string message;
};

/// Replays two steps symbolically. Uses nothing of the planner: recomputes everything from the graph. Checks that
/// - every task is in exactly one entry; collectives are on their channel's stream; waits name real entries;
/// - there is no deadlock: the two steps can be run to their end;
/// - every edge (distance 0 and 1) is implied by stream order and waits;
/// - two tensors share bytes only if every access of one happens before the first write of the other, also from one
///   step to the next;
/// - the streams' collectives are subsequences of the plan's one total order.
/// Returns at most `limit` violations; the plan is safe if there are none.
std::vector<Violation> check_plan(const Plan& plan, std::size_t limit = 20);

}  // namespace weft::plan
