// Policy `anneal`, and the searches of a list schedule's priorities that other policies use too: by sweeps and by
// simulated annealing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

struct Swept {
  std::vector<double> priority;  // by task, of the best forward schedule
  double makespan = 0;
};

/// Schedules forward by `priority`, then `rounds` times backward, by the tasks' ends in the forward schedule, and
/// forward again, by their starts in the backward schedule. So a task that delays the end of the step through a busy
/// link gets a higher priority, which a longest path doesn't give it. Each round costs two list schedules. The result
/// is the shortest of these schedules, with `fits` of the schedules that fit (scheduling/limited_lists.h); its makespan
/// is infinite if none fits.
Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds,
            const FitsMemory& fits = {});

/// The result of a search.
struct Annealed {
  std::vector<double> priority;  // by task
  /// Makespans of the list schedules by the given priority and by this one; best ≤ first if the first fits. Infinite if
  /// none fits.
  double first = 0, best = 0;
};

/// `moves` times: changes priorities, schedules again, and keeps the change if the makespan isn't longer, else with
/// probability exp(−Δ/θ); θ begins at 0.05 % of the first makespan and cools to 0 with the square of the moves left
/// (Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", 1983). A change shifts one of these:
/// - the tasks at one place of their layers' passes, in all layers, since layers are identical;
/// - all tasks of a pass of one micro-batch, or of one layer in it, or of one of several rank classes;
/// - 1 to 4 tasks, drawn from all tasks, or from the tasks on the longest path that waited for their stream, which get
///   a higher priority than the task that ran instead.
/// With `fits`, the best is a schedule that fits, and no shorter one is kept (scheduling/limited_lists.h).
Annealed anneal(ListScheduler& scheduler, std::vector<double> priority, std::int64_t moves, std::uint64_t seed,
                const FitsMemory& fits = {});

/// How much work a search does.
struct SearchEffort {
  std::int64_t moves = 0;
  int sweeps = 0;  // after each of its parts
};

/// The `asked` moves. If none are asked for: `usual` moves; up to three times as many if the step has few tasks; fewer
/// moves and sweeps if it has so many tasks that the search would take minutes. No clock is read, so that equal steps
/// get equal orders.
SearchEffort search_effort(std::optional<std::int64_t> asked, std::int64_t usual, std::size_t tasks);

/// Anneals in parts, each followed by sweeps (sweep()) of its result: annealing finds what sweeps then draw together.
/// Of several starts each is searched for a part, and the best goes on. Without moves there are no sweeps either.
Annealed search(ListScheduler& forward, ListScheduler& backward, std::span<const std::vector<double>> starts,
                SearchEffort effort, std::uint64_t seed, const FitsMemory& fits = {});

/// Starts from the order of critical-path, improved by sweeps (sweep()). Without a memory limit its makespan
/// (timetable.h) is never longer than that order's. `iterations`: number of moves, each of which costs one list
/// schedule, by default search_effort() of 500, and as many tries to hold tasks back (wait_moves.h); `seed`: by default
/// the options' seed. Where memory is short, layers may be computed again and weights gathered again
/// (rewrite_to_fit.h). `chunks` and `placement`: of a pipeline's layers (policy_parameters.h).
class AnnealPolicy final : public Policy {
 public:
  enum Code : std::uint16_t { kBest, kTies };
  static constexpr plan::ReasonText kTexts[] = {
      {"the ready task with the largest priority, found in {} moves from critical-path with sweeps ({ms} → {ms} ms)"},
      {"first in program order of the ready tasks that tie on the largest priority, found in {} moves from "
       "critical-path with sweeps ({ms} → {ms} ms)"},
  };
  static constexpr plan::ReasonTable kReasons{"anneal", kTexts};

  AnnealPolicy() = default;
  explicit AnnealPolicy(PolicyParameters& parameters);
  std::string name() const override { return "anneal"; }
  bool rewrites_to_fit() const override { return true; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;

 private:
  std::optional<std::int64_t> iterations_;
  std::optional<std::uint64_t> seed_;
};

}  // namespace weft::policy
