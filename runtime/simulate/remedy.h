// Remedies: changes of an order or a graph that make communication less exposed, each with its simulated gain. For a
// group of exposed collectives, candidates go from one computation earlier to as early as the data allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"
#include "runtime/simulate/exposed_collective.h"

namespace weft::simulate {

// ---- moves, of which remedies are made ----

enum class MoveKind : std::uint8_t {
  before,   // `task`, and what leads to it, goes directly before `anchor`, if it comes after that
  after,    // `task`, and what needs it, goes directly after `anchor`, if it comes before that
  release,  // `task` waits for nothing but its data: the policy's edges into it are dropped
  wait,     // `task` waits for the end of `anchor`
  detach,   // tasks that don't need `task` don't wait for it: the policy's edges to them are dropped
};

struct OrderMove {
  MoveKind kind = MoveKind::before;
  graph::TaskId task, anchor;
  friend bool operator==(const OrderMove&, const OrderMove&) = default;
};

/// The sequence of a plan as an order that can be changed and planned again.
plan::Order order_of(const plan::Plan& plan);

/// Makes the moves one after the other. Then drops the policy's edges that the changed sequence contradicts. Returns
/// "", or, when the graph forbids a move, why; then the order is of no use.
std::string apply(const graph::Graph& graph, const std::vector<OrderMove>& moves, plan::Order& order);

/// The moves with the tasks of another graph that have the same names. Sets `missing` to the name of the first task
/// that it lacks.
std::vector<OrderMove> translated(const std::vector<OrderMove>& moves, const graph::Graph& from, const graph::Graph& to,
                                  std::string& missing);

// ---- remedies ----

enum class RemedyKind : std::uint8_t {
  issue_earlier,       // the collective waits for an earlier task, or for its data alone
  issue_later,         // it begins later, so that other communication goes first
  pass_queue,          // it overtakes another collective of its stream
  local_task,          // a local task goes earlier or later
  unblock,             // tasks that don't need it don't wait for it
  computations_first,  // computations of the same pass that don't need it go before the first that does
  computations_moved,  // computations of another pass do, such as recomputed ones in the forward pass
  rewrite,             // of the whole graph
  // The plan can't have these:
  no_memory_limit,
  no_time,  // the collectives take no time: what could be gained at most from them alone
};

/// The enumerator's name, for programs that read it.
std::string_view identifier_of(RemedyKind kind);

/// Gains below this are noise of the simulator's arithmetic, and print as 0.000 ms.
inline constexpr double kLeastGain = 500;

/// Gains are by how much the step becomes shorter; ≤ 0: it doesn't help.
struct Remedy {
  RemedyKind kind = RemedyKind::rewrite;
  std::string what = {};                          // "issue it before L1.mlp.up.bwd.all_reduce_dx"
  double gain_ns = 0;                             // with all collectives of the group changed
  std::size_t collectives = 0;                    // number of these; 0: the remedy concerns the whole graph
  double alone_ns = 0;                            // the gain with the worst alone changed
  std::size_t computations = 0;                   // number of computations that move
  std::int64_t memory_bytes = 0;                  // by how much the plan takes more memory
  bool fits = true;                               // within the memory that a plan may take
  int number = 0;                                 // by which it can be chosen; 0: not at all
  std::vector<OrderMove> moves = {}, worst = {};  // of all collectives, and of the worst alone
  std::optional<plan::Rewrite> rewrite = {};

  bool gains() const { return gain_ns >= kLeastGain; }
};

/// Finds candidates, with moves and without gains, in the order of one simulated step. Within a kind, candidates that
/// change less come first. Their number doesn't depend on the number of tasks, but for a logarithm. `members`: equal
/// collectives, the most exposed first.
std::vector<Remedy> candidate_remedies(const SimulatedStep& step, const plan::Order& order,
                                       std::span<const ExposedCollective> members);

}  // namespace weft::simulate
