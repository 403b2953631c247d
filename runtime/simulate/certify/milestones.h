// An argument that windows lack: what runs beside a chain of tasks has to find its place along it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/simulate/certify/step_model.h"
#include "runtime/simulate/certify/window.h"

namespace weft::simulate {

/// Consecutive parts of a step at one price. If the price isn't that of all these parts, `during` says which have it.
struct Charge {
  static constexpr std::int32_t kAll = -1, kWaits = -2;
  std::uint32_t first = 0, last = 0;
  /// kAll; kWaits: the parts in which no milestone runs; k: those in which a milestone runs that the queue of
  /// milestone k serves.
  std::int32_t during = kAll;
  double price = 0;
};

/// A resource with its items of at least these heads and tails, and what each part of the step pays for their work.
/// `beside`: the resource is computations, and what the chosen items of the other one take from them counts as their
/// work. Of kind `task` there are no items: the parts before a milestone pay for its head, those after it for its tail.
struct PricedLoad {
  ResourceName resource;
  Thresholds chosen = {};
  std::optional<ResourceName> beside = {};
  std::vector<Charge> charges = {};
};

/// A chain of tasks, each of which precedes the next one, divides a step into parts: part 2k + 1 is the time in which
/// milestone k runs, and part 2k the time before it, since milestone k − 1 has ended.
///
/// The bound that it proves. No part pays more than 1 in all, so the step takes at least what all parts pay for their
/// time. A charge of price p on some parts pays p times their time, and this is at least
/// - p times the work that the resource does on chosen items in these parts: it does one item at a time at most, and
///   computations lose speed while something runs beside them, as windows say;
/// - if the parts are all from the step's begin to a milestone's begin or end, p·A more, where A is the least head of
///   the chosen items and no more than that of this end: none of the work is done before A. The same for tails B. If
///   the parts are the whole step, p·(A + B) more, as in a window;
/// - of kind `task`, p times the least head or tail that the milestone at the charge's end gives.
/// If a part pays less than 1, the rest goes to the milestone that runs in it, for the time of the milestone alone.
/// So the step takes at least these sums and, for each task, its work at the prices of the part in which the task is
/// cheapest, of all parts in which it can run: after the milestones that precede it, before those that it precedes, and
/// not while another milestone of its queue runs. A task's uses of all resources proceed alike, so they are paid for in
/// the same part.
struct MilestoneProof {
  std::vector<graph::ClassTask> milestones;
  std::vector<PricedLoad> loads;
};

/// Where the tasks of a step can run along a chain.
class MilestoneParts {
 public:
  MilestoneParts(const StepModel& model, std::vector<std::uint32_t> chain);

  /// Whether each milestone precedes the next one.
  bool is_chain() const { return is_chain_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(2 * chain_.size() + 1); }
  std::span<const std::uint32_t> chain() const { return chain_; }
  std::uint32_t first(std::uint32_t node) const { return first_[node]; }
  std::uint32_t last(std::uint32_t node) const { return last_[node]; }
  static bool is_wait(std::uint32_t part) { return part % 2 == 0; }
  std::uint32_t milestone_in(std::uint32_t part) const { return chain_[part / 2]; }
  /// Whether another task that a queue of the node serves has this part for itself.
  bool taken(std::uint32_t node, std::uint32_t part) const;
  bool in(const Charge& charge, std::uint32_t part) const;

  /// The least time of parts 0 to `last`, by the head of the milestone at their end; and of parts `first` to the end,
  /// by a tail.
  double least_until(std::uint32_t last, const Limits& limits) const;
  double least_since(std::uint32_t first, const Limits& limits) const;

 private:
  const StepModel& model_;
  std::vector<std::uint32_t> chain_;
  std::vector<std::uint32_t> first_, last_;  // by node
  bool is_chain_ = true;
};

/// The bound that the proof shows; 0 if its milestones are no chain or a part pays more than 1.
double proved_by(const MilestoneProof& proof, const StepModel& model, const Limits& limits);

/// A resource's work, by node. Items that are below a threshold are left out.
struct LoadWork {
  double head = 0, tail = 0;  // the least of the items; 0 without items
  std::vector<ResourceItem> items = {};
};
LoadWork work_of(const PricedLoad& load, const StepModel& model, const Limits& limits);

/// Finds a proof: the chain, and the prices that prove most. Takes a longest path as the chain, divides it into
/// sections of about equal time, and gives one price to all parts of a section whose milestones one queue serves. Then
/// the best prices are the solution of a linear program. `about_ns`: a bound that is known, for its scale. None if
/// there is nothing to price.
std::optional<MilestoneProof> search_prices(const StepModel& model, const Limits& limits, double about_ns);

}  // namespace weft::simulate
