// OverlapBench: the steps that policies find on a set of instances, beside the best that is known of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/policy/catalog/policies.h"
#include "study/bench/bench_instances.h"
#include "study/bench/certificates.h"

namespace weft::study {

/// The training step of an instance.
struct BenchStep {
  /// Of its graphs, their costs, and what a simulation and a plan depend on besides: links, slowdowns, streams, memory.
  /// What was found for another step is no longer worth anything.
  std::uint64_t fingerprint = 0;
  std::int64_t tasks = 0;  // of all stages
  bool pipeline = false;
};

BenchStep step_of(const BenchInstance& instance);

/// One policy on one instance: a simulated step, or the reason why there is none.
struct BenchRow {
  std::string instance, policy;
  std::uint64_t step = 0;            // the fingerprint of the instance's step
  std::uint64_t graph = 0;           // the same of the graphs that the policy ordered; `step` if it rewrote nothing
  double step_ns = 0, bound_ns = 0;  // the bound is of the policy's own graph, which it may have rewritten
  double exposed_ns = 0;             // of pipelines: of the stage that has most
  std::int64_t memory_bytes = 0;     // of a rank; of pipelines: of the stage that takes most
  std::int64_t tasks = 0;            // of pipelines: of all stages
  double planning_ms = 0;
  std::uint64_t proof = 0;  // the graph in the CertificateBook of this run; 0: it isn't there
  std::string reason = {};  // "": the step was simulated

  bool possible() const { return reason.empty(); }
};

/// A policy to be tried on an instance.
struct BenchJob {
  BenchInstance instance;
  BenchStep step;
  policy::NamedPolicy policy;
};

/// Policies × instances, without a policy that doesn't order an instance (one of pipelines, a step of one stage).
/// `steps`: of the instances.
std::vector<BenchJob> bench_jobs(std::span<const BenchInstance> instances, std::span<const BenchStep> steps,
                                 std::span<const policy::NamedPolicy> policies);

/// A row for each job, on so many threads, which take the jobs in their order. `found` gets each row as soon as it is
/// there, from one thread at a time. The rows don't depend on the number of threads, but for planning times. The book
/// proves their bounds.
std::vector<BenchRow> run_bench(std::span<const BenchJob> jobs, int threads, CertificateBook& book,
                                const std::function<void(const BenchRow&)>& found, const TellStatus& tell);

/// Proves the bounds of solved rows of an instance again, without running their policies. A row keeps its bound and has
/// no proof if its graph can't be had without the policy's search: one that was rewritten to fit the memory, or by a
/// user's policy.
void refresh_bounds(const BenchInstance& instance, const BenchStep& step, std::span<BenchRow> rows,
                    CertificateBook& book);

/// What is known of an instance.
struct BestKnown {
  std::string instance;
  std::uint64_t step = 0;   // the fingerprint of its step
  double step_ns = 0;       // the shortest step
  std::string policy;       // that found it
  std::uint64_t graph = 0;  // the graph whose bound it is
  double bound_ns = 0;      // that no step is below: the least over all graphs that were tried
  double gap() const { return bound_ns > 0 ? step_ns / bound_ns - 1 : 0; }
};

/// The best of the rows of `instances` and of `known`, by name. Of a graph the greatest of its bounds counts, so that a
/// bound that a search proved stays; of an instance the least over its graphs. Rows and what is known of another step
/// than `steps` say are forgotten; what is known of other instances stays.
std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const BenchStep> steps,
                               std::span<const BenchRow> rows, std::vector<BestKnown> known);

/// A policy over all instances that it orders.
struct PolicyScore {
  std::string policy;
  std::int64_t instances = 0, solved = 0;
  std::int64_t best = 0;  // number of instances on which no step is shorter
  double mean_ratio = 0;  // geometric mean of step / best known step, where it has a step
  double worst_ratio = 0;
  double planning_ms = 0;  // sum
  /// Rising ratios of its steps to the best known, its performance profile (Dolan and Moré, 2002); one for each
  /// instance that it solved.
  std::vector<double> ratios = {};

  bool possible() const { return solved > 0; }
};

/// By mean ratio, policies that solve more first.
std::vector<PolicyScore> scores_of(std::span<const BenchRow> rows, std::span<const BestKnown> best);

}  // namespace weft::study
