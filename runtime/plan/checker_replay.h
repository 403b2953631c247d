// The checker's own happens-before relation: two steps of the plans of all rank classes, run symbolically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// The vector clocks of a class in two steps: how many entries of every stream are certain to be complete when a task
/// starts. A clock follows from the class's own queues and waits, so it is the same with other classes or without.
class Clocks {
 public:
  explicit Clocks(const Plan& plan);

  /// Sets the clock of a stream's entry, counted over both steps. The entry before it in the stream and the entries for
  /// which it waits must have theirs.
  void start(std::size_t stream, std::uint32_t number);

  /// The number of `stream`'s entries, counted from the beginning of the first step, that are complete when `task` of
  /// the second step starts.
  std::uint32_t clock(graph::TaskId task, std::size_t stream) const {
    return clocks_[(tasks_ + task.index()) * streams_ + stream];
  }
  /// Is `from` complete before `to` starts, `from` being of the same step or, at distance 1, of the step before?
  bool before(graph::TaskId from, graph::TaskId to, std::uint8_t distance) const {
    const Position& at = plan_->position[from.index()];
    return clock(to, at.stream.index()) > first(at.stream.index(), distance == 0 ? 1 : 0) + at.entry;
  }
  /// The number of a stream's first entry of a step.
  std::uint32_t first(std::size_t stream, std::uint32_t step) const {
    return step * static_cast<std::uint32_t>(plan_->streams[stream].entries.size());
  }

 private:
  const Plan* plan_;
  std::size_t tasks_, streams_;
  std::vector<std::uint32_t> latest_;  // [stream]: its clock after its latest entry
  std::vector<std::uint32_t> clocks_;  // [step][task][stream]
};

/// Runs two consecutive steps of one rank of each class. An entry starts when the one before it in its stream has ended
/// and its waits hold. It ends at once; a message or a collective of several classes ends when it has started on all
/// its members. Shares no code with the planner, so that the checker can't repeat the planner's mistakes. The plans'
/// ids and indices must be valid, messages must pair and shared collectives must have equal sequences.
class Replay {
 public:
  enum class Queues : std::uint8_t {
    by_channel,  // streams advance independently of each other
    one,         // also, a collective or message starts only after all before it in its plan's total order have ended
  };

  explicit Replay(std::span<const Plan* const> plans, Queues queues = Queues::by_channel);

  bool complete() const { return complete_; }
  /// With Queues::by_channel. Entries that aren't run have clocks of 0.
  const Clocks& clocks(std::size_t of_class) const { return clocks_[of_class]; }

  struct Cycle {
    std::string text;  // "a (compute0) waits for c (data), which waits for a (compute0)"
    bool of_one_class = true;
  };
  /// The shortest cycle of waits. The replay mustn't be complete.
  Cycle cycle() const;

 private:
  /// A stream of a class.
  struct Slot {
    std::size_t of_class = 0, stream = 0;
    const std::vector<Entry>* entries = nullptr;
    std::uint32_t done = 0;                 // entries that have ended, over both steps
    bool started = false;                   // the current entry, which waits for its other members
    std::vector<std::size_t> members = {};  // of its messages or collectives, itself among them; empty: of one class

    std::uint32_t length() const { return static_cast<std::uint32_t>(entries->size()); }
    const Entry& entry(std::uint32_t number) const {
      return (*entries)[number < length() ? number : number - length()];
    }
    bool finished() const { return done == 2 * length(); }
  };
  /// An entry of a slot, counted over both steps.
  struct Number {
    std::size_t slot = 0;
    std::uint32_t number = 0;
    bool by_queue = false;  // only the order of the one queue makes the other entry wait for it
  };

  void find_members();
  void run();
  bool advance(std::size_t slot);
  void end(std::size_t slot);
  const graph::Task& task(const Slot& slot, std::uint32_t number) const;
  bool has_ended(const Number& number) const { return slots_[number.slot].done > number.number; }
  /// The entry for which the slot's current one waits; nullopt: it would be of the step before the first.
  std::optional<Number> target(const Slot& slot, const Wait& wait) const;
  /// With one queue, the entry before which a slot's current one may not start, if there is one.
  std::optional<Number> ahead_in_queue(std::size_t slot) const;
  bool may_start(std::size_t slot) const;
  /// The entries for which a slot's current one waits.
  std::vector<Number> blockers(std::size_t slot) const;
  std::vector<Number> shortest_cycle() const;
  std::string name(const Number& number) const;

  std::vector<const Plan*> plans_;
  Queues queues_;
  std::vector<std::size_t> first_slot_;  // by class, and the number of slots at the end
  std::vector<Slot> slots_;
  std::vector<Clocks> clocks_;             // by class
  std::vector<std::size_t> communicated_;  // by class: collectives and messages that have ended, over both steps
  std::vector<bool> changed_;              // by class: something ended since it was last visited
  std::vector<std::size_t> open_;          // the changed classes
  bool complete_ = true;
};

}  // namespace weft::plan
