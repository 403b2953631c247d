// The graphs of a step as a library sees them: tasks, tensors, edges, streams, channels and links as plain C arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// Names point into the graphs, the streams, the options' machine and the parameters, which outlive it. Not movable,
/// since its arrays are pointed to. By class: `streams`, `costs`, and `limits` in bytes of scratch (0: none).
class LibraryProblem {
 public:
  LibraryProblem(graph::Classes classes, std::span<const std::vector<plan::Stream>> streams,
                 std::span<const cost::TaskCosts> costs, std::span<const std::int64_t> limits,
                 const PolicyOptions& options, const std::string& parameters);
  LibraryProblem(const LibraryProblem&) = delete;
  LibraryProblem& operator=(const LibraryProblem&) = delete;

  const weft2_problem& problem() const { return problem_; }

 private:
  /// The arrays of one class.
  struct Tables {
    std::vector<std::string> kinds;  // with their terminating zeros
    std::vector<weft2_tensor> tensors;
    std::vector<weft2_access> accesses;
    std::vector<weft2_task> tasks;
    std::vector<weft2_edge> edges;
    std::vector<weft2_stream> streams;
    std::vector<std::uint32_t> meetings;

    void add_tensors(const graph::Graph& graph);
    void add_edges(const graph::Graph& graph);
    weft2_class described(const std::string& name, std::int64_t memory_limit) const;
  };

  void add_channels(const graph::Graph& graph, const std::vector<plan::Stream>& streams, const PolicyOptions& options,
                    Tables& tables);
  void add_links(const PolicyOptions& options);
  void add_tasks(const graph::Graph& graph, const cost::TaskCosts& costs, Tables& tables) const;
  void add_meetings(graph::Classes classes);

  std::vector<std::string> class_names_;     // with their terminating zeros
  std::vector<int> link_numbers_;            // by index of a link
  std::vector<graph::Channel> channel_ids_;  // by index of a channel
  std::vector<Tables> tables_;               // by class
  std::vector<weft2_class> classes_;
  std::vector<weft2_channel> channels_;
  std::vector<weft2_link> links_;
  std::vector<weft2_slowdown> slowdowns_;
  weft2_problem problem_ = {};
};

}  // namespace weft::policy
