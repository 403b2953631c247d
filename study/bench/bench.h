// OverlapBench: the steps that policies find on a set of instances, beside the best that is known of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/policy/policy.h"
#include "study/bench/bench_instances.h"
#include "study/bench/certificates.h"

namespace weft::study {

/// One policy on one instance: a simulated step, or the reason why there is none.
struct BenchRow {
  std::string instance, policy;
  double step_ns = 0, bound_ns = 0;  // the bound is of the policy's own graph, which it may have rewritten
  double exposed_ns = 0;             // of pipelines: of the stage that has most
  std::int64_t memory_bytes = 0;     // of a rank; of pipelines: of the stage that takes most
  std::int64_t tasks = 0;            // of pipelines: of all stages
  double planning_ms = 0;
  std::uint64_t graph = 0;  // that the policy ordered: simulate::bound_fingerprint()
  std::string reason = {};  // "": the step was simulated

  bool solved() const { return reason.empty(); }
};

/// Policies × instances, a row each, on so many threads; the rows of an instance follow each other. A policy that
/// doesn't order an instance (one of pipelines, a step of one stage) is left out of its rows. The result doesn't depend
/// on the number of threads, but for planning times.
std::vector<BenchRow> run_bench(std::span<const BenchInstance> instances, std::span<const policy::NamedPolicy> policies,
                                int threads, const TellStatus& tell);

/// The same; the book proves the bounds.
std::vector<BenchRow> run_bench(std::span<const BenchInstance> instances, std::span<const policy::NamedPolicy> policies,
                                int threads, const TellStatus& tell, CertificateBook& book);

/// Of an instance's graphs and costs. What was found for another step is no longer worth anything.
std::uint64_t step_fingerprint(const BenchInstance& instance);

/// What is known of an instance.
struct BestKnown {
  std::string instance;
  std::uint64_t step = 0;  // its step_fingerprint()
  double step_ns = 0;      // the shortest step
  std::string policy;      // that found it
  double bound_ns = 0;     // that no step is below: the least bound of all graphs that were tried
  double gap() const { return bound_ns > 0 ? step_ns / bound_ns - 1 : 0; }
};

/// The best of the rows of `instances` and of `known`, by name; `steps` are the fingerprints of the instances. What is
/// known of another step of the same name is forgotten; what is known of other instances stays.
std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const std::uint64_t> steps,
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
};

/// By mean ratio, policies that solve more first.
std::vector<PolicyScore> scores_of(std::span<const BenchRow> rows, std::span<const BestKnown> best);

}  // namespace weft::study
