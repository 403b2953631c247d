// The joint proof: the plans of all pipeline stages, each proved by itself, can be run together to their end.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"

namespace weft::plan {

/// plans[k] is the plan of the ranks with pipe coordinate k, without violations of its own (check_plan()). Checks that
/// - the k-th send of a message channel meets a k-th receive at its other end on the neighbour, with the same message
///   number, count and dtype, and no end is left over (Kind::message);
/// - of a channel whose groups have members in several stages (world, pipe; embedding in the first and the last), every
///   stage with members issues one sequence of equal signatures, and the others issue none (Kind::collective_order);
/// - two steps can be run to their end (Kind::deadlock);
/// - and also if each rank runs one collective or message at a time, in the order of plan.collectives, as NCCL may if
///   the communicators of a device share one queue (Kind::one_queue).
/// One rank a stage stands for all, since its ranks have equal plans. Queues are in order and no receive takes from
/// "anyone", so what an entry waits for never depends on timing. So the replay of any one interleaving decides for all:
/// an entry starts when the one before it has ended and its waits hold; a message or a collective of several stages
/// ends when it has started on all its members. What is left then holds a circle, of which the shortest found is named:
///
///   stage 0: mb1.S0.fwd.send (send_next) waits for stage 1: mb1.S1.fwd.receive (receive_previous), which waits for …
///
/// Needs O(tasks + waits + messages · streams). Returns at most `limit` violations. The later checks run only if the
/// earlier ones found nothing.
std::vector<Violation> check_together(std::span<const Plan* const> plans, std::size_t limit = 20);

}  // namespace weft::plan
