// Where recorded ranks of one group disagree about a collective: its kind, its size, or whether it takes place. A run
// would hang or be wrong there, so mostly a trace lacks something or is of another step.
#pragma once

#include <string>
#include <vector>

#include "graph/open_graph.h"

namespace weft::inspect {

/// One sentence for each rank and group that differs from the group's first recorded rank, about the first such call.
std::vector<std::string> rank_differences(const graph::OpenGraph& graph);

}  // namespace weft::inspect
