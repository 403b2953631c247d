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
  /// Schedules that plan finalists with stages.
  std::vector<policy::NamedPolicy> schedules = {};
  /// Policies that plan every finalist; the searching policy plans the best of them in addition.
  std::vector<policy::NamedPolicy> policies;
  std::optional<policy::NamedPolicy> searching;
  std::size_t finalists = 6;  // steps that are planned and simulated whole, at most
  int threads = 1;
};

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
};

struct SearchResult {
  train::RunConfig config;  // without a setup
  cost::Machine machine;
  std::vector<Configuration> configurations;  // that fit, the finalists first, each by rising step
  std::int64_t choices = 0;                   // of the whole space, orders of axes counted
  std::int64_t too_large = 0;                 // that take too much memory in every order
  std::int64_t too_slow = 0;                  // whose bound is above the best step found
  std::int64_t estimated = 0;                 // small steps of which were simulated
};

/// The run that a search begins with: filled in for one rank and one sequence, then given back its batch. Without a
/// machine it is a laptop's. Throws UserError on what no setup could mend.
train::ResolvedRun open_search(const train::RunConfig& config);

/// Searches the space of setups_of(), the least bound first:
/// 1. Closed forms bound every setup's memory and time (ClosedForms).
/// 2. While a setup's bound is below the best step known, graphs of one and two layers and micro-batches tighten its
///    bounds (StepBounds); then its step is estimated from small steps (StepEstimate). Of each grid the few orders of
///    axes with the least communication are estimated. What exceeds the memory is dropped.
/// 3. The best estimates are planned and simulated whole by each policy, within the memory: as many as have a given
///    number of tasks together. The searching policy plans the best of these, unless it has very many tasks.
/// The schedules estimate and plan steps with pipeline stages, which formulas leave out too (share_of_stages()).
/// The result doesn't depend on the number of threads. `run` comes from open_search(). Throws UserError if no setup
/// exists, naming the nearest number of ranks that has one, or if none fits the memory, naming the least that was
/// found.
SearchResult search_configurations(const train::ResolvedRun& run, const SearchOptions& options, const TellStatus& tell);

/// The configuration of a search's result, to be written to a file: it trains, simulates and compares.
train::RunConfig config_of(const SearchResult& result, const Configuration& configuration);

}  // namespace weft::study
