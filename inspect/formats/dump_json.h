// A graph as JSON, for scripts and other programs.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/grid.h"

namespace weft::inspect {

/// Keys sorted, one tensor, task or edge a line; equal graphs give equal bytes.
///
///   {"format":"weft.graph","version":1,"fingerprint":"0x…",
///    "tensors":[{"dtype","id","name","role","shape"}, …],
///    "tasks":[{"accesses":[{"cols","mode","offset","row_stride","rows","tensor"},
///    …],"id","kind","layer","micro_batch",
///              "name","operation":{the fields of graph/operation.h},"phase"}, …],
///    "edges":[{"distance","from","kind","reason","tensor","to"}, …]}
///
/// With a grid, between fingerprint and tensors,
///
///    "grid":{"data","order":[axes, the one of neighbouring ranks first],"x","y","z"},
///    "groups":{a channel that a task's operation names:[[the ranks of a group, in its order], …], …},
///
/// Tasks and tensors are referred to by id; an edge that no tensor asked for has tensor null. Names that aren't UTF-8
/// keep their bytes' shape as U+FFFD.
std::string dump_json(const graph::Graph& graph, const std::optional<graph::Grid>& grid = {});

}  // namespace weft::inspect
