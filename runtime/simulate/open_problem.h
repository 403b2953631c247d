// Open graphs as problems of policies and the simulator, and compiled steps as open graphs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/grid.h"
#include "graph/open_graph.h"
#include "graph/stream_order.h"
#include "runtime/cost/recorded_costs.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"

namespace weft::simulate {

/// The machine's name in a problem without one.
inline constexpr std::string_view kNoMachine = "none";

/// What a command line says about an open graph.
struct OpenChoices {
  std::optional<std::size_t> of_class = {};   // by itself, without the others; absent: all, which wait for each other
  std::optional<cost::Machine> machine = {};  // its contention, and its rates for tasks without a time
  DType dtype = DType::bf16;                  // whose rate counts for flops
  graph::KeptOrder kept = graph::KeptOrder::known;  // of recorded streams
  std::vector<cost::NamedFactor> bandwidths = {};
  /// Compute streams; 0: as many as computations ran on, at least 1.
  int compute_streams = 0;
  policy::PolicyOptions options = {};  // memory and seed
};

/// The step of all classes, or of the one that is chosen. Without a machine, tasks slow each other down as the graph
/// says, and only collectives on one link do if it says nothing. Where the step was recorded, only collectives on one
/// link do: times of tasks with begins hold contention already. Throws the exceptions of opaque_graph(), and UserError
/// where a cost is missing (recorded_costs()) or the classes wait for each other in a cycle.
Problem open_problem(const graph::OpenGraph& open, const OpenChoices& choices);

/// The policy for an open graph if none is named: `recorded` if its tasks have begins, else `program`.
policy::NamedPolicy default_open_policy(const graph::Graph& graph);

/// A compiled step as a graph whose edges are all listed: with costs, lifetimes of memory, channels, and the links that
/// the problem's channels use. opaque_graph() of it has the same tasks, edges and bytes.
/// It has a class for each of the step's; a Receive has no time of its own. Of an opaque step each queue is a channel,
/// and the parts of a collective have one name.
graph::OpenGraph open_graph_of(graph::Classes classes, std::span<const cost::TaskCosts> costs, const Problem& problem,
                               std::string name);

}  // namespace weft::simulate
