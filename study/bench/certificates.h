// Certificates of instances: for each graph that a policy made of an instance, a bound with the argument that proves
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "runtime/simulate/certify/certificate.h"

namespace weft::study {

/// A policy may rewrite an instance's graph, and a bound of one graph doesn't hold for another. So the bound of an
/// instance is the least of all graphs that were tried.
struct InstanceCertificate {
  struct Graph {
    simulate::GraphCertificate proof;
    std::set<std::string> policies;  // that ordered it
  };
  std::string instance;
  std::uint64_t step = 0;     // BenchStep::fingerprint
  std::vector<Graph> graphs;  // by fingerprint
  double bound_ns() const;
};

/// Proves a bound of each graph once, whichever policies order it. May be used by several threads.
class CertificateBook {
 public:
  /// `graphs`: a folder for the graphs, as files that the checker reads; empty: none are written.
  explicit CertificateBook(std::filesystem::path graphs = {}) : graphs_(std::move(graphs)) {}

  /// A graph that a policy has ordered, and its step. Returns the graph's bound_fingerprint().
  std::uint64_t enter(const std::string& instance, const std::string& policy, const graph::OpenGraph& graph,
                      double step_ns);
  /// The same of a graph that is in the book.
  void enter(const std::string& instance, const std::string& policy, std::uint64_t graph, double step_ns);
  double bound_ns(std::uint64_t graph) const;

  /// Splits each graph into cases (simulate::split_into_cases), `splits` times at most, where its bound is below its
  /// best step. Needs the folder of graphs.
  void branch(std::size_t splits);

  /// Of an instance and the fingerprint of its step; nullopt: none was entered.
  std::optional<InstanceCertificate> certificate_of(const std::string& instance, std::uint64_t step) const;

 private:
  std::filesystem::path graphs_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, simulate::GraphCertificate> proofs_;                       // by bound_fingerprint()
  std::map<std::uint64_t, double> steps_;                                            // the shortest of each graph
  std::map<std::string, std::map<std::uint64_t, std::set<std::string>>> instances_;  // policies
};

/// The name of a graph's file in a folder of graphs.
std::string graph_file_name(std::uint64_t graph);

/// A certificate as JSON (docs/bench.md).
std::string certificate_json(const InstanceCertificate& certificate);

}  // namespace weft::study
