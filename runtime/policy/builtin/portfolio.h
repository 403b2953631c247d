// Policy `portfolio`: the best order of all other policies, improved by a search.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/scheduling/wait_moves.h"

namespace weft::policy {

/// Orders the graph by every cheap policy, takes the one with the shortest makespan under contention (timetable.h),
/// improves by sweeps (anneal.h) this order, that of critical-path and that of the best policy without a memory limit,
/// and searches from all of them for `budget` moves (anneal.h; by default search_effort() of 600; 0: no sweeps either).
/// The search also chooses how far ahead weights are gathered. Then tasks are held back, in as many tries as there were
/// moves (wait_moves.h). The result is never longer than a member's order. All
/// members order the same graph, without rewrites of their own. Messages are joined or split first where that makes a
/// step shorter (message_rewrites.h; `messages=off` leaves them as they are). Where memory is short, the graph may have
/// layers computed again and weights gathered again (rewrite_to_fit.h), and each graph is searched with `budget` moves.
/// Orders whose plans exceed the memory limit are dropped; if all do, the order that takes the least scratch wins, and
/// its reasons say so. `seed`: of the search; by default the options' seed.
///
/// Of a pipeline, the members are the published schedules for its `chunks` and `placement`
/// (policy_parameters.h), `pipe-list`, `pipe-search`, and list schedules of all stages together.
class PortfolioPolicy final : public Policy {
 public:
  enum Code : std::uint16_t { kSwept, kTiesOnSwept, kSearched, kTiesOnSearched };
  static constexpr plan::ReasonText kTexts[] = {
      {"the ready task with the largest priority, found by sweeps"},
      {"first in program order of the ready tasks that tie on the largest priority, found by sweeps"},
      {"the ready task with the largest priority, found in {} moves"},
      {"first in program order of the ready tasks that tie on the largest priority, found in {} moves"},
  };
  static constexpr plan::ReasonTable kReasons{"portfolio", kTexts};

  PortfolioPolicy() = default;
  explicit PortfolioPolicy(PolicyParameters& parameters);
  std::string name() const override { return "portfolio"; }
  bool rewrites_to_fit() const override { return true; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override;

  struct Member {
    std::string name;  // as make_policy takes it
    std::unique_ptr<Policy> policy;
  };
  static std::vector<Member> members();

  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
  /// The same before any task is held back.
  std::vector<plan::Order> orders_without_waits(graph::Classes classes, const PolicyOptions& options) const;
  /// With tasks held back where that makes the step shorter.
  HeldBack held_back(graph::Classes classes, const std::vector<plan::Order>& orders,
                     const PolicyOptions& options) const;

 private:
  std::vector<Member> pipeline_members(std::int64_t moves, std::uint64_t seed) const;

  std::optional<std::int64_t> budget_;  // moves of the search
  std::optional<std::uint64_t> seed_;
  bool messages_ = true;  // may they be joined or split?
};

}  // namespace weft::policy
