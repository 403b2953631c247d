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

#include "runtime/plan/rewrite.h"
#include "runtime/simulate/exposed_collective.h"
#include "runtime/simulate/order_move.h"

namespace weft::simulate {

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
