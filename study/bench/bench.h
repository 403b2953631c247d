// OverlapBench: the steps that policies find on a set of instances.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "study/bench/certificates.h"
#include "study/experiment.h"

namespace weft::study {

/// The training step of an instance.
struct BenchStep {
  /// Of its graphs, their costs, and what a simulation and a plan depend on besides: links, slowdowns, streams, memory.
  /// What was found for another step is no longer worth anything.
  std::uint64_t fingerprint = 0;
  std::int64_t tasks = 0;  // of all rank classes
  std::size_t classes = 1;
};

/// A configuration (NAME.toml) or an open graph (NAME.graph.json, NAME.graph.json.gz).
struct BenchInstance {
  std::string name;
  std::filesystem::path file;
  std::string about = {};  // a configuration's first comment
  BenchStep step = {};     // by step_of()

  bool is_graph() const;
};

/// The instances of a folder, by name, without their steps; with `wanted`, those names alone. Throws UserError if there
/// are none, if two have one name, or if a wanted one isn't there.
std::vector<BenchInstance> bench_instances(const std::filesystem::path& folder,
                                           std::span<const std::string> wanted = {});

BenchStep step_of(const BenchInstance& instance);

/// One policy on one instance: a simulated step, or the reason why there is none.
struct BenchRow {
  std::string instance, policy;
  std::uint64_t step = 0;            // the fingerprint of the instance's step
  std::uint64_t graph = 0;           // the same of the graphs that the policy ordered; `step` if it rewrote nothing
  double step_ns = 0, bound_ns = 0;  // the bound is of the policy's own graph, which it may have rewritten
  double exposed_ns = 0;             // of the rank class that has most
  std::int64_t memory_bytes = 0;     // of a rank of the class that takes most
  std::int64_t tasks = 0;            // of all rank classes
  double planning_ms = 0;
  std::uint64_t proof = 0;  // the graph in the CertificateBook of this run; 0: it isn't there
  std::string reason = {};  // "": the step was simulated

  bool possible() const { return reason.empty(); }
};

/// Policies × instances, without a policy that doesn't order an instance (one of pipelines, a step of one stage). A
/// step takes as long as its tasks are many. The book proves the rows' bounds. The rows depend on the number of threads
/// in their planning times alone. The arguments outlive the experiment.
Experiment<BenchRow> experiment_of(std::span<const BenchInstance> instances,
                                   std::span<const policy::NamedPolicy> policies, int threads, CertificateBook& book);

/// Proves the bounds of solved rows of an instance again, without running their policies. A row keeps its bound and has
/// no proof if its graph can't be had without the policy's search: one that was rewritten to fit the memory, or by a
/// user's policy.
void refresh_bounds(const BenchInstance& instance, std::span<BenchRow> rows, CertificateBook& book);

/// Whether Weft has a policy of this name; a user's policy may be another by now, whatever it is called.
bool is_built_in(const std::string& policy);

}  // namespace weft::study
