// How ranks of a pipeline get the graphs of other stages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "graph/graph.h"

namespace weft::execute {

/// The graph of the ranks at a coordinate on the axis pipe.
using GraphOfStage = std::function<std::shared_ptr<const graph::Graph>(std::int64_t pipe)>;

}  // namespace weft::execute
