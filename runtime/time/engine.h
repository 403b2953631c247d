// The engine of time: what runs on the streams of some ranks, at which rates, and when it ends. The simulator plays
// plans on it, and policies the orders that they compare.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cost/core_pool.h"
#include "runtime/cost/link_shares.h"
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

  std::size_t slots() const { return streams_.size(); }
  std::size_t slot(std::size_t rank, std::size_t stream) const { return ranks_[rank].begin + stream; }
  std::size_t rank_of(std::size_t slot) const { return rank_of_[slot]; }
  const StreamLoad& stream(std::size_t slot) const { return streams_[slot]; }

  double now() const { return state_.now; }
  void advance(double now) { state_.now = now; }
  /// Ends everything, at time 0.
  void reset();

  /// Starts a task now that takes this time alone.
  void start(std::size_t slot, std::uint32_t task, double ns);
  /// Adds a member to the meeting whose last member so far is `before`, which has just been started.
  void join(std::size_t slot, std::uint32_t task, std::size_t before);
  /// Ends the slot's task; of a meeting, the slot is the lead, and all members end.
  void end(std::size_t slot);
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
    std::vector<std::uint32_t> running;  // from each rank's first slot on: its slots that run, ascending
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
    std::size_t begin;  // its first slot
    std::uint32_t pool = kOwnCores;
  };
  /// A rank's slots that compute or communicate; local tasks don't count.
  std::span<const std::uint32_t> running(std::size_t rank) const {
    const Running& at = state_.ranks[rank];
    return {state_.running.data() + ranks_[rank].begin, static_cast<std::size_t>(at.computing + at.communicating)};
  }
  bool communicates(std::size_t slot) const { return !streams_[slot].compute; }
  void enter(std::size_t slot);
  void leave(std::size_t slot);
  void count(std::size_t slot, int tasks);
  void use_link(const StreamLoad& stream, double use);
  double link_rate(const StreamLoad& stream, double use) const;
  void settle_transports(std::size_t rank, double share);
  void offer(std::size_t slot, double share);
  void settle_computations(std::size_t rank);
  void settle_own_computations(std::size_t rank, double share);
  double share_of(const cost::CorePool& pool) const;
  double cores_taken(std::size_t rank) const;
  void set_rate(std::size_t slot, double rate);

  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> rank_of_;  // by slot
  std::vector<StreamLoad> streams_;     // by slot
  std::span<const cost::CorePool> pools_;
  double cores_ = 1;
  bool shared_cores_ = false;
  bool has_messages_ = false;  // each link is twice in on_link_: out, then in
  std::size_t links_ = 0;
  cost::LinkShares on_link_{0};  // of the rank that settle() is at
  State state_;
};

}  // namespace weft::time
