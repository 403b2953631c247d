// A policy's reason for a task's position: a kind with its data, and its text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft::plan {

/// The comments name the data of a kind after "numbers:".
enum class ReasonKind : std::uint8_t {
  // program order, and changes to it by hand-written policies
  program_order,
  in_place,         // a collective that is waited for where its result is used
  weight_gradient,  // off the chain of input gradients, like gradients of biases and embeddings
  bias_gradient,
  embedding_gradient,
  gathered_no_earlier,  // numbers: layers ahead of its use
  blocking,             // serial: no computation runs meanwhile
  drawn,                // numbers: the seed
  // axonn
  axonn_blocking,       // the next task waits for it
  axonn_reduced,        // oar: waited for after the weight gradient
  axonn_scattered,      // ors: waited for at the end of the backward pass
  axonn_gathered_next,  // oag: issued when the weight gathered before it is used
  axonn_gathered,       // oag; numbers: gathers ahead
  axonn_data,           // the data axis, after the backward pass
  // ddp-bucket
  bucket,  // numbers: its index, number of buckets, its gradients, its bytes
  // fsdp
  gathered_ahead,  // numbers: layers in the forward, in the backward pass
  gathered_after,  // after the gradients of an earlier layer; numbers: layers ahead
  limiter,         // numbers: layers that may be gathered and not done yet
  reduced_after,   // a gradient, after the rest of the backward pass
  // inductor
  issued_after_input,  // raise
  issued_in_turn,      // after the computations that come before it in the order
  hides_before,  // reorder: a computation moved to hide the collective before it; ns: its cost, what was left to hide
  // deepcompile
  prefetched,  // numbers: bytes in flight beside it, of all that may be
  // exact
  reordered,  // numbers: tasks of a window
  // list schedules
  only_ready,          // no other task of its stream could start
  held_for_memory,     // the forecast was above the limit
  above_memory_limit,  // no task fits, and it comes first in the program
  best_ready,          // by Reason::priority, which has the numbers
  tied_ready,          // first in program order of the tasks that tie on the priority
  // the rule of lhs that decided
  rule_memory,
  rule_release,
  rule_near,
  rule_communication,
  rule_hide,
  rule_critical,
  rule_unlock,
  rule_consumer,
  rule_less_memory,
  rule_program,
  // texts from outside
  not_given,  // a shared library gave no reason
  other,      // Reason::text, from a shared library or an edited plan file
};

/// The priority by which a list schedule chooses among ready tasks; the largest value comes first.
enum class Priority : std::uint8_t {
  longest_path,            // to the end of the step
  annealed_critical_path,  // numbers: moves; ns: the makespan before and after them
  swept,
  as_ordered,  // the start of the task in an order that takes too much memory
  annealed,    // numbers: moves
};

/// The choice of this order among several, by a portfolio or to keep a memory limit.
struct Selection {
  std::string order = {};          // its policy, as make_policy() takes it, or how the search found it
  std::uint64_t orders = 0;        // number of orders to choose from
  std::uint64_t memory_limit = 0;  // bytes of scratch; 0: any order could be chosen, and this is the shortest
  bool keeps_limit = false;        // the shortest that keeps the limit; false: none did, and this takes the least
  double makespan_ns = 0;
  std::string rewrites = {};  // of the graph, which the policy chose to keep the limit: "recompute=0-3;reshard"
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// Data that a kind doesn't have keep their defaults.
struct Reason {
  ReasonKind kind = ReasonKind::program_order;
  Priority priority = Priority::longest_path;
  std::array<std::uint64_t, 4> numbers = {};
  std::array<double, 2> ns = {};
  std::string text = {};
  std::optional<Selection> selection = {};
  friend bool operator==(const Reason&, const Reason&) = default;
};

/// The first selection of an order's reasons, which all have the same; null if they have none.
const Selection* selection_of(std::span<const Reason> reasons);

/// The number of `numbers` and `ns` that a kind has.
struct ReasonData {
  std::size_t numbers = 0, ns = 0;
};
ReasonData data_of(ReasonKind kind, Priority priority);

/// Does the kind belong to a list schedule, and so have a priority?
bool has_priority(ReasonKind kind);

/// What texts from outside begin with if the task was delayed or preferred to keep a memory limit.
inline constexpr std::string_view kForMemory = "for memory: ";

/// Was the task delayed or preferred to keep a memory limit?
bool is_for_memory(const Reason& reason);

/// The text in plans, traces and drawings: "limiter: at most 2 layers are gathered and not passed yet".
std::string to_string(const Reason& reason);

/// The reason that to_string() turns into `text`, else one of kind `other`. Times and bytes are as exact as the text.
Reason parse_reason(std::string_view text);

}  // namespace weft::plan
