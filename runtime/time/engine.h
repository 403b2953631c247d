// The engine of time: what runs on the streams of some ranks, at which rates, and when it ends. The simulator plays
// plans on it, and policies the orders that they compare.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assertions.h"
#include "runtime/cost/machine.h"
#include "runtime/time/class_loads.h"
#include "runtime/time/event_queue.h"

namespace weft::time {

/// A slot is a stream of a rank, and runs at most one task. A collective of several ranks that are told apart, or a
/// message, is a meeting: a task on several slots, whose first one leads and has its time. Work proceeds at rates by
/// the rules of contention (runtime/simulate/simulator.h), a meeting at the rate of its slowest member.
///
///   engine.start(a, task, ns);  engine.settle(0);   // settle each rank on which tasks have started or ended
///   engine.advance(engine.next());
///   engine.end(engine.first());
///
/// Nothing is allocated after the construction.
class Engine {
 public:
  static constexpr std::uint32_t kIdle = UINT32_MAX;
  static constexpr double kNever = EventQueue::kNever;

  /// The loads, without a machine if the engine has none, must outlive it, and so must the pools. By default each class
  /// has one rank. Ranks that are in no pool have cores of their own.
  Engine(std::span<const ClassLoads> classes, const cost::Machine* machine,
         std::span<const std::uint32_t> class_of_rank = {}, std::span<const cost::CorePool> pools = {});

  std::size_t slots() const { return places_.size(); }
  std::size_t slot(std::size_t rank, std::size_t stream) const { return ranks_[rank].begin + stream; }
  std::size_t rank_of(std::size_t slot) const { return places_[slot].rank; }
  const StreamLoad& stream(std::size_t slot) const { return places_[slot].stream; }

  double now() const { return state_.now; }
  void advance(double now) { state_.now = now; }
  /// Ends everything, at time 0.
  void reset();

  /// Starts a task now that takes this time alone.
  void start(std::size_t slot, std::uint32_t task, double ns) {
    assert_that("a slot runs one task at a time", [&] { return idle(slot); });
    const auto lead = static_cast<std::uint32_t>(slot);
    state_.slots[slot] = {task, lead, kIdle, places_[slot].tasks + task, ns, 1, state_.now, 1};
    state_.ends.set(slot, state_.now + ns);
    count(slot, 1);
  }
  /// Adds a member to the meeting whose last member so far is `before`, which has just been started.
  void join(std::size_t slot, std::uint32_t task, std::size_t before) {
    assert_that("a slot runs one task at a time", [&] { return idle(slot); });
    state_.slots[slot] = {.task = task, .lead = state_.slots[before].lead, .load = places_[slot].tasks + task};
    state_.slots[before].next = static_cast<std::uint32_t>(slot);
    count(slot, 1);
  }
  /// Ends the slot's task; of a meeting, the slot is the lead, and all members end.
  void end(std::size_t slot) {
    state_.ends.remove(slot);
    for (std::uint32_t member = static_cast<std::uint32_t>(slot); member != kIdle; member = state_.slots[member].next) {
      state_.slots[member].task = kIdle;
      count(member, -1);
    }
  }
  /// Recomputes the rates of what runs on a rank after tasks started or ended there, and where they depend on it.
  void settle(std::size_t rank);

  bool idle(std::size_t slot) const { return state_.slots[slot].task == kIdle; }
  std::uint32_t task(std::size_t slot) const { return state_.slots[slot].task; }
  bool empty() const { return state_.ends.empty(); }
  /// The slot whose task ends first, of a meeting its lead; of equal times, the first slot. Some task must run.
  std::size_t first() const { return state_.ends.first(); }
  /// When the first task ends; kNever if none does.
  double next() const { return empty() ? kNever : finish(first()); }
  /// When a task ends if no rate changes, of a meeting at its lead; kNever if the slot is idle.
  double finish(std::size_t slot) const { return state_.ends.time(slot); }
  /// The time that the slot's task would still take alone, of a meeting at its lead.
  double remaining(std::size_t slot) const {
    const Slot& at = state_.slots[slot];
    return std::max(0.0, at.remaining - at.rate * (state_.now - at.updated));
  }

  struct Slot {
    std::uint32_t task = kIdle;
    std::uint32_t lead = 0, next = kIdle;  // of a meeting: its first slot and its next one
    const TaskLoad* load = nullptr;
    double remaining = 0, rate = 1, updated = 0;  // in ns alone; 1: as if alone; of a lead
    double share = 1;                             // the rate that this rank allows its collective
  };
  /// Of a rank.
  struct Running {
    int computing = 0, communicating = 0;  // numbers of tasks
    // What the rates of its transports follow from:
    bool changed = false;  // a transport started or ended since
    bool beside = false;   // computations ran
    double share = 1;      // of its cores that the rank had
  };
  struct State {
    std::vector<Slot> slots;
    std::vector<std::uint64_t> computing, communicating;  // slots, a bit each, by the words of their ranks
    std::vector<Running> ranks;
    EventQueue ends;
    double now = 0;
  };
  /// For searches that come back to an earlier state.
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  static constexpr std::uint32_t kOwnCores = UINT32_MAX;

  struct Rank {
    const ClassLoads* loads;
    std::size_t begin;                  // its first slot
    std::size_t first_word, last_word;  // of the sets in State
    std::uint32_t pool = kOwnCores;
  };
  /// Of a slot.
  struct Place {
    StreamLoad stream;
    std::uint32_t rank = 0, word = 0;  // the word of the sets in State in which it has a bit
    std::uint64_t bit = 0;
    const TaskLoad* tasks = nullptr;  // of its class
  };
  /// Calls visit(slot) for each slot of a rank in a set of State, in their order.
  template <class F>
  void each(const std::vector<std::uint64_t>& set, const Rank& rank, F&& visit) const {
    std::size_t slot = rank.begin;
    for (std::size_t word = rank.first_word; word < rank.last_word; ++word, slot += 64) {
      for (std::uint64_t bits = set[word]; bits != 0; bits &= bits - 1)
        visit(slot + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }
  /// One task more on the slot, or with -1 one less. Local tasks have no effect on others.
  void count(std::size_t slot, int tasks) {
    const Place& at = places_[slot];
    Running& running = state_.ranks[at.rank];
    if (at.stream.compute) {
      state_.computing[at.word] ^= at.bit;
      running.computing += tasks;
    } else if (!at.stream.local) {
      state_.communicating[at.word] ^= at.bit;
      running.communicating += tasks;
      running.changed = true;
    }
  }
  void use_link(const StreamLoad& stream, double use);
  double link_rate(const StreamLoad& stream, double use) const;
  bool transports_change(const Running& running, double share) const {
    return running.changed || running.beside != (running.computing > 0) || running.share != share;
  }
  void settle_transports(std::size_t rank, double share);
  void offer(std::size_t slot, double share);
  void settle_computations(std::size_t rank);
  void settle_own_computations(std::size_t rank, double share);
  double share_of(const cost::CorePool& pool) const;
  double cores_taken(const Rank& rank) const;
  void set_rate(std::size_t slot, double rate);

  std::vector<Rank> ranks_;
  std::vector<Place> places_;  // by slot
  std::span<const cost::CorePool> pools_;
  double cores_ = 1;
  bool shared_cores_ = false;
  bool has_messages_ = false;  // each link is twice in on_link_: out, then in
  std::size_t links_ = 0;
  LinkShares on_link_{0};  // of the rank that settle() is at
  State state_;
};

}  // namespace weft::time
