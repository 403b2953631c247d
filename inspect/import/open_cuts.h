// Tasks of a recorded step cut into pieces, so that edges lead from ends to begins alone, as a simulation plays them.
#pragma once

#include "graph/open_graph.h"

namespace weft::inspect {

/// Cuts tasks where another one can begin before they are done (OpenEdge::after_begin_ns). Where the other one can
/// begin only some time after its end, that time becomes a task of the host on a stream of such times. Tasks have
/// recorded times.
void cut_at_delays(graph::OpenClass& step);

}  // namespace weft::inspect
