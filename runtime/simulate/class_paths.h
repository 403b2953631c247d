// The longest path of a step through the graphs of all rank classes.
#pragma once

#include <span>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "graph/meetings.h"
#include "runtime/cost/costs.h"

namespace weft::simulate {

/// By class: head, tail and length go over messages and collectives into other classes, and there are no `tasks`. The
/// members of a meeting are one task: a message has its Send's cost, a collective that of its first member. With one
/// class it is graph::critical_path(). Throws std::logic_error if the costs are of other graphs, or if the classes wait
/// for each other in a cycle whatever the order.
std::vector<graph::CriticalPath> critical_paths(graph::Classes classes, const graph::Meetings& meetings,
                                                std::span<const cost::TaskCosts> costs);

}  // namespace weft::simulate
