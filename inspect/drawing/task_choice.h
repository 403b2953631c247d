// Which tasks of a large graph somebody wants to see: layers, the neighbourhood of a task, all paths between two.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace weft::inspect {

/// A task must pass all that is set.
struct TaskChoice {
  std::optional<std::pair<std::int32_t, std::int32_t>> layers = {};  // first and last
  std::optional<graph::TaskId> around = {};                          // at most `hops` edges away, either way
  int hops = 2;
  std::optional<graph::TaskId> from = {}, to = {};  // on a path from, to, or between

  bool all() const { return !layers && !around && !from && !to; }
};

/// In rising order. Paths and neighbours go by the graph's edges and `added` ones, of distance 0.
std::vector<graph::TaskId> chosen_tasks(const graph::Graph& graph, std::span<const graph::Edge> added,
                                        const TaskChoice& choice);

/// The task of that name. Throws UserError with the nearest names; `flag` is where the name comes from.
graph::TaskId named_task(const graph::Graph& graph, const std::string& flag, const std::string& name);

/// "2..3" or "2". Throws UserError if that names no layers of the graph.
std::pair<std::int32_t, std::int32_t> named_layers(const graph::Graph& graph, const std::string& text);

}  // namespace weft::inspect
