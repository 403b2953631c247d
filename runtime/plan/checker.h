// Proves that the plans of a step are safe before they run, or names their violations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
    message,    // ends of messages don't fit together
    one_queue,  // a deadlock of several classes where all communication of a rank shares one queue
  };
  Kind kind;
  std::string message;
};

/// plans[k] is the plan of rank class k, whose ranks have pipe coordinate k. Replays two steps symbolically. Uses
/// nothing of the planner: recomputes everything from the graphs. Checks in each class that
/// - every task is in exactly one entry; collectives are on their channel's stream; waits name real entries;
/// - every edge (distance 0 and 1) is implied by stream order and waits;
/// - two tensors share bytes only if every access of one happens before the first write of the other, also from one
///   step to the next;
/// - the streams' collectives are subsequences of the plan's one total order;
/// between classes, that messages and shared collectives meet (checker_classes.h); and of all of them together, that
/// - two steps can be run to their end (Kind::deadlock);
/// - and also if each rank runs one collective or message at a time, in the order of plan.collectives, as NCCL may if
///   the communicators of a device share one queue (Kind::one_queue; Kind::collective_order if one class by itself
///   can't be run so).
/// One rank a class stands for all, since its ranks have equal plans. Queues are in order and no receive takes from
/// "anyone", so what an entry waits for never depends on timing. So the replay of any one interleaving decides for all.
/// If it doesn't come to its end, entries wait for each other in a cycle, of which the shortest found is named:
///
///   stage 0: mb1.S0.fwd.send (send_next) waits for stage 1: mb1.S1.fwd.receive (receive_previous), which waits for …
///
/// Returns at most `limit` violations; the plans are safe if there are none. The check for deadlocks needs sound
/// structures, messages and shared collectives, and the checks of edges and memory need a replay that comes to its end:
/// they run only then.
std::vector<Violation> check(std::span<const Plan* const> plans, std::size_t limit = 20);

/// The step of a single class.
inline std::vector<Violation> check_plan(const Plan& plan, std::size_t limit = 20) {
  const Plan* const one = &plan;
  return check({&one, 1}, limit);
}

}  // namespace weft::plan
