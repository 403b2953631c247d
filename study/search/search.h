// The search for the fastest way to run a training step on a number of ranks: grid, order of axes, micro-batch,
// recomputation, resharding, ZeRO-1 and policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "study/search/step_setup.h"
#include "train/config/resolved_run.h"

namespace weft::study {

struct SearchOptions {
  std::int64_t ranks = 1;
  KeptKeys kept;                          // of searched_keys(): left as the configuration has them
  std::vector<std::int64_t> pipes = {1};  // numbers of pipeline stages to try
  Tried tried = {};
  /// Schedules that plan finalists with stages.
  std::vector<policy::NamedPolicy> schedules = {};
  /// Policies that plan every finalist; the searching policy plans the best of them in addition.
  std::vector<policy::NamedPolicy> policies;
  std::optional<policy::NamedPolicy> searching;
  /// The steps with the best estimates, and all within kNear of the best, are planned and simulated whole.
  std::size_t finalists = 20;
  double max_seconds = 0;                 // after which a search ends with what it has; 0: none
  std::optional<graph::Grid> included{};  // planned too, wherever it stands
  int threads = 1;

  static constexpr double kNear = 1.03;
};

/// What is known of a configuration's step and memory: a lower bound, an estimate, or a plan.
enum class Known : std::uint8_t { bound, estimate, plan };

/// A step that was estimated, and, for a finalist, planned and simulated as it would run.
struct Configuration {
  StepSetup setup = {};
  std::string policy = {};  // of a finalist: that planned it
  std::int64_t tasks = 0;   // of a rank's step
  double least_ns = 0;
  double step_ns = 0;
  std::int64_t memory_bytes = 0;
  bool exact = false;
  std::shared_ptr<const simulate::Report> report = nullptr;  // if exact

  /// An estimate of few layers may lie below the bound of the whole step, which then counts.
  Known known() const { return exact ? Known::plan : step_ns <= least_ns ? Known::bound : Known::estimate; }
};

/// What became of the grid that was to be included.
struct IncludedGrid {
  graph::Grid grid;
  std::optional<StepSetup> setup = {};  // of its best configuration, which is one of the result's
  std::string reason = {};              // without a setup: why there is none
};

struct SearchResult {
  train::RunConfig config;  // without a setup
  cost::Machine machine;
  std::vector<Configuration> configurations;  // that fit, the finalists first, each by rising step
  std::int64_t choices = 0;                   // of the whole space, orders of axes counted
  std::int64_t too_large = 0;                 // that take too much memory in every order
  std::int64_t too_slow = 0;                  // whose bound is above the best step found
  std::int64_t skimmed = 0;                   // slower than the best by far, by one schedule of small steps
  std::int64_t dominated = 0;                 // recompute or reshard for memory that isn't short
  std::int64_t estimated = 0;                 // small steps of which were simulated
  /// If the time was over: choices that weren't looked at, and good estimates that weren't planned whole.
  std::int64_t not_examined = 0, not_planned = 0;
  std::optional<IncludedGrid> included = {};
};

/// The run that a search begins with: filled in for one rank and one sequence, then given back its batch. Without a
/// machine it is a laptop's. Throws UserError on what no setup could mend.
train::ResolvedRun open_search(const train::RunConfig& config);

/// Searches the space of setups_of(), the least bound first:
/// 1. Closed forms bound every setup's memory and time (ClosedForms).
///    Recomputation and resharding are left out where the memory has far more room than a step without them takes.
/// 2. While a setup's bound is below the best step known, graphs of one and two layers and micro-batches tighten its
///    bounds (StepBounds), and one list schedule of them tells how near it may come. The nearest first, its step is
///    estimated from small steps (StepEstimate). Of each grid the few orders of axes with the least communication are
///    estimated. What exceeds the memory is dropped.
/// 3. The best estimates are planned and simulated whole by each policy, within the memory, so that the first
///    configuration is the fastest of those planned. The searching policy plans the best of these, and all within kNear
///    of it, unless they have very many tasks.
/// The schedules estimate and plan steps with pipeline stages, which formulas leave out too (share_of_stages()).
/// Without a limit of time the result doesn't depend on the number of threads. `run` comes from open_search(). Throws
/// UserError if no setup exists, naming the nearest number of ranks that has one, or if none fits the memory, naming
/// the least that was found; and if the included grid has another number of ranks.
SearchResult search_configurations(const train::ResolvedRun& run, const SearchOptions& options, const TellStatus& tell);

/// The configuration of a search's result, to be written to a file: it trains, simulates and compares.
train::RunConfig config_of(const SearchResult& result, const Configuration& configuration);

}  // namespace weft::study
