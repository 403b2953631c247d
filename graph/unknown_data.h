// Where nothing tells a task's data, the order in which it was recorded stands for them: among all that had been done
// before it, and all that began after it.
#pragma once

#include <vector>

#include "graph/open_graph.h"

namespace weft::graph {

/// The order that holds though edges of is_recorded_order() don't: a task of a device without OpenTask::data_known
/// comes after all tasks that the recording has before it, over all streams and their waits, and before all that it has
/// after it. So does a task of the host that waits for the device. Of this order, the edges that other edges which hold
/// don't imply. A class whose streams have too many gaps keeps all order.
std::vector<OpenEdge> order_of_unknown_data(const OpenClass& step);

}  // namespace weft::graph
