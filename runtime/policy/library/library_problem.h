// A graph as a library sees it: tasks, tensors, edges, streams, channels and links as plain C arrays.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/stream.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// Names point into the graph, the streams, the options' machine and the parameters, which outlive it. Not movable,
/// since its arrays are pointed to.
class LibraryProblem {
 public:
  LibraryProblem(const graph::Graph& graph, const std::vector<plan::Stream>& streams, const cost::TaskCosts& costs,
                 const PolicyOptions& options, const std::string& parameters);
  LibraryProblem(const LibraryProblem&) = delete;
  LibraryProblem& operator=(const LibraryProblem&) = delete;

  const weft2_problem& problem() const { return problem_; }

 private:
  void add_tensors(const graph::Graph& graph);
  void add_channels(const graph::Graph& graph, const std::vector<plan::Stream>& streams, const PolicyOptions& options);
  void add_tasks(const graph::Graph& graph, const cost::TaskCosts& costs);
  void add_edges(const graph::Graph& graph);

  std::vector<std::string> kinds_, link_names_;  // with their terminating zeros
  std::vector<graph::Channel> channel_ids_;      // by index of a channel
  std::vector<weft2_tensor> tensors_;
  std::vector<weft2_access> accesses_;
  std::vector<weft2_task> tasks_;
  std::vector<weft2_edge> edges_;
  std::vector<weft2_stream> streams_;
  std::vector<weft2_channel> channels_;
  std::vector<weft2_link> links_;
  std::vector<weft2_slowdown> slowdowns_;
  weft2_class class_ = {};
  weft2_problem problem_ = {};
};

}  // namespace weft::policy
