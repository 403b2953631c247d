// The words of a drawing about its tasks: short names, sizes, labels, tooltips, the caption and the legend.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "graph/graph.h"
#include "graph/grid.h"

namespace weft::inspect {

/// The name without the parts that its sections say already: mb0.L3.mlp.up.bwd.gemm_dw is mlp.up.gemm_dw there.
std::string short_name(const graph::Task& task);

/// The same for a tensor of a task: without micro-batch and layer.
std::string short_tensor_name(const std::string& tensor, const graph::Task& task);

/// "512×768×768" of a product, "over y (ranks 0, 1), 64 KiB" of a collective, of others the largest operand's shape.
/// Ranks are named where a grid is known.
std::string shape_text(const graph::Graph& graph, const graph::Task& task, const std::optional<graph::Grid>& grid = {},
                       std::int64_t rank = 0);

/// "layer 3", "layers 0 to 3, × 4", "layers 0, 2, × 2"; -1 doesn't count.
std::string layers_text(const std::set<std::int32_t>& layers);

}  // namespace weft::inspect
