// Why a policy placed a task where it stands: a kind with its data, and the one place where a text is made of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::plan {

/// The data of a kind, if it has any, are named after "numbers:".
enum class ReasonKind : std::uint8_t {
  // program order, and what hand-written policies change in it
  program_order,
  in_place,         // a collective that is waited for where its result is used
  weight_gradient,  // off the chain of input gradients, as are those of biases and embeddings
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
  bucket,  // numbers: which one, of how many, its gradients, its bytes
  // fsdp
  gathered_ahead,  // numbers: layers in the forward, in the backward pass
  gathered_after,  // after the gradients of a layer before; numbers: layers ahead
  limiter,         // numbers: layers that may be gathered and not passed yet
  reduced_after,   // a gradient, after the rest of the backward pass
  // list schedules
  only_ready,          // no other task of its stream could start
  held_for_memory,     // the forecast was above the limit
  above_memory_limit,  // nothing fits, and it comes first in the program
  best_ready,          // by Reason::priority, which has the numbers
  tied_ready,          // the first in the program of several that are equal by it
  // the rules of lhs that decided
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
  // words of others
  not_given,  // a shared library has none
  other,      // Reason::text, from a shared library or an edited plan file
};

/// What a list schedule takes ready tasks by: the largest value of it first.
enum class Priority : std::uint8_t {
  longest_path,            // to the end of the step
  annealed_critical_path,  // numbers: moves; ns: the makespan before and after them
  swept,
  swept_after_search,
  annealed,  // numbers: moves
};

/// That a portfolio chose the order, among several.
struct Selection {
  std::string order = {};          // whose, as make_policy() takes it, or how it was found
  std::uint64_t orders = 0;        // that it was chosen from
  std::uint64_t memory_limit = 0;  // bytes that no order kept: it takes the least; 0: it is the shortest
  double makespan_ns = 0;
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// The data of a kind are its own; those that it has none of keep their defaults.
struct Reason {
  ReasonKind kind = ReasonKind::program_order;
  Priority priority = Priority::longest_path;
  std::array<std::uint64_t, 4> numbers = {};
  std::array<double, 2> ns = {};
  std::string text = {};
  std::optional<Selection> selection = {};
  friend bool operator==(const Reason&, const Reason&) = default;
};

/// How many of `numbers` and `ns` a kind has.
struct ReasonData {
  std::size_t numbers = 0, ns = 0;
};
ReasonData data_of(ReasonKind kind, Priority priority);

/// Is it a task of a list schedule, which has a priority?
bool has_priority(ReasonKind kind);

/// Did the task wait, or go first, to keep to a limit of memory?
bool is_for_memory(const Reason& reason);

/// As plans, traces and drawings tell it: "limiter: at most 2 layers are gathered and not passed yet".
std::string to_string(const Reason& reason);

/// The reason whose text this is; `other` if no kind's is. Times and bytes are as exact as the text.
Reason parse_reason(std::string_view text);

}  // namespace weft::plan
