// A graph as Graphviz DOT: clusters of phases and layers, colours of kinds, and only the edges that say something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "graph/graph.h"
#include "graph/grid.h"

namespace weft {

/// How a task's stream looks: graph/ doesn't know plans.
struct StreamStyle {
  std::string name;
  std::string color;  // "#rrggbb"
};

struct DotOptions {
  std::string title = {};               // the first line of the caption
  std::string file_name = "graph.dot";  // in the first line: the command that renders the file

  /// The border of a task. Without it all borders are grey.
  std::function<StreamStyle(TaskId)> stream_of = {};
  /// A line more in a task's tooltip ("starts at 1.2 ms, slack 0.3 ms").
  std::function<std::string(TaskId)> note = {};
  /// Edges beyond the graph's own: a policy's, a memory planner's.
  std::span<const Edge> added_edges = {};
  /// Drawn thick and red.
  std::span<const TaskId> critical_path = {};

  /// How ranks are arranged, where that is known: collectives then name the ranks that `rank` joins in them.
  std::optional<Grid> grid = {};
  std::int64_t rank = 0;

  /// Leave out edges that a path of others implies (implied_edges in graph/analysis.h). Data that forward tasks save
  /// for backward ones becomes numbers in the labels ("saves 3" … "uses 3") where it is implied: drawn, these long
  /// edges would hide everything else.
  bool reduce = true;
  /// Edges to the next step, in grey.
  bool next_step_edges = false;
  /// Draw the layers behind the first one as one node a phase. Unset: if there are more than two layers or more than
  /// max_nodes tasks.
  std::optional<bool> collapse_layers = {};
  /// If layers are collapsed and still more nodes than this remain, micro-batches behind the first are collapsed too.
  std::size_t max_nodes = 600;
};

/// Equal graphs and options give equal text. Edges: solid = data (read after write), dashed = the bytes are written
/// again (write after read or write, memory reuse), dotted = order only (a policy's, issued-before). `id` of a node is
/// its task's name, `class` its kind, its tooltip names shapes, bytes and flops, and a
/// collective's its group. The caption counts what isn't shown.
std::string dump_dot(const Graph& graph, const DotOptions& options = {});

}  // namespace weft
