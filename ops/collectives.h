// Collectives of the lowering: each is a task on its channel with the workspace that it needs. With one rank in the
// group nothing is emitted.
#pragma once

#include <string_view>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// x for the axis x, … ; z's gathers and scatters have channels of their own, so: z_scatter.
graph::Channel channel_of(graph::Axis axis);

/// The element of "coordinates" that `index` names.
graph::Access coordinate(Lowering& low, CoordinateIndex index);
/// The rank's place on x or y.
graph::Access coordinate(Lowering& low, graph::Axis axis);

/// Sums the first `count` elements of `tensor` over the group, in place.
void all_reduce(Lowering& low, std::string_view what, graph::TensorId tensor, std::int64_t count,
                graph::Channel channel);

/// Of in, ranks·count elements, the rank's sum of `count`, in a new tensor of the given shape and role; `in` itself
/// with one rank.
graph::TensorId reduce_scatter(Lowering& low, std::string_view what, graph::TensorId in,
                               std::vector<std::int64_t> shape, graph::Role role, graph::Channel channel);

/// Every rank's `in`, one behind the other, in a new tensor [ranks·rows, cols]; `in` itself with one rank.
graph::TensorId all_gather(Lowering& low, std::string_view what, graph::TensorId in, graph::Channel channel);

}  // namespace weft::ops
