// The longest path of a step through the graphs of all rank classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/analysis.h"
#include "graph/meetings.h"
#include "graph/rank_classes.h"
#include "runtime/cost/costs.h"

namespace weft::simulate {

/// All nodes, so that edges go forward; `after`: by node, where its edges go. Throws std::logic_error if the classes,
/// of whose tasks the nodes are made, wait for each other in a cycle.
std::vector<std::uint32_t> topological_order(const std::vector<std::vector<std::uint32_t>>& after);

/// By class: head, tail and length go over messages and collectives into other classes, and there are no `tasks`. The
/// members of a meeting are one task: a message has its Send's cost, a collective that of its first member. With one
/// class it is graph::critical_path(). Throws std::logic_error if the costs are of other graphs, or if the classes wait
/// for each other in a cycle whatever the order.
std::vector<graph::CriticalPath> critical_paths(graph::Classes classes, const graph::Meetings& meetings,
                                                std::span<const cost::TaskCosts> costs);

}  // namespace weft::simulate
