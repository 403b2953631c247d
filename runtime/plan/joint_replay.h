// Two steps of the plans of all pipeline stages, run together symbolically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::plan {

/// Runs one rank of each stage (runtime/plan/joint_check.h). Messages must pair and collectives must have equal
/// sequences.
class JointReplay {
 public:
  enum class Queues : std::uint8_t {
    by_channel,  // streams advance independently of each other
    one,         // a collective or message starts only after all before it in its plan's total order have ended
  };

  JointReplay(std::span<const Plan* const> plans, Queues queues);

  bool complete() const { return complete_; }
  /// The shortest circle of entries at which streams stand still; "" if complete().
  std::string circle() const;

 private:
  /// A stream of a stage.
  struct Slot {
    std::size_t stage = 0, stream = 0;
    std::uint32_t done = 0;            // entries that have ended, over both steps
    bool started = false;              // the current entry, which waits for its other members
    std::vector<std::size_t> members;  // of its messages or collectives, itself among them; empty: of one stage
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
  std::uint32_t length(const Slot& slot) const;
  const Entry& entry(const Slot& slot, std::uint32_t number) const;
  bool communicates(const Slot& slot) const;
  /// The wait's entry; number = UINT32_MAX if it is of the step before the first.
  Number target(const Slot& slot, const Wait& wait) const;
  bool has_ended(Number number) const { return slots_[number.slot].done > number.number; }
  /// The entry that the one queue has next, of a stage.
  Number next_in_queue(std::size_t stage) const;
  bool may_start(const Slot& slot) const;
  /// The entries for which a slot's current one waits.
  std::vector<Number> blockers(std::size_t slot) const;
  std::string name(Number number) const;

  std::span<const Plan* const> plans_;
  Queues queues_;
  std::vector<std::size_t> first_slot_;  // by stage, and the number of slots at the end
  std::vector<Slot> slots_;
  std::vector<std::size_t> communicated_;  // by stage: collectives and messages that have ended, over both steps
  std::vector<bool> changed_;              // by stage: something ended since it was last visited
  std::vector<std::size_t> open_;          // the changed stages
  bool complete_ = true;
};

}  // namespace weft::plan
