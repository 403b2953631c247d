// Collectives of the lowering: each becomes a task on its channel, with its workspace. A group of one rank needs no
// task.
#pragma once

#include <string_view>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// The channel x for the axis x, and so on. z has separate channels for gathers and scatters; its result is z_scatter.
graph::Channel channel_of(graph::Axis axis);

/// The element of "coordinates" with this index.
graph::Access coordinate(Lowering& low, CoordinateIndex index);
/// The rank's coordinate on x or y.
graph::Access coordinate(Lowering& low, graph::Axis axis);

/// Sums the first `count` elements of `tensor` over the group, in place.
void all_reduce(Lowering& low, std::string_view what, graph::TensorId tensor, std::int64_t count,
                graph::Channel channel);

/// Sums `in`, ranks·count elements, over the group and returns the rank's `count` elements of the sum, in a new tensor
/// of the given shape and role; with one rank, returns `in` itself.
graph::TensorId reduce_scatter(Lowering& low, std::string_view what, graph::TensorId in,
                               std::vector<std::int64_t> shape, graph::Role role, graph::Channel channel);

/// The same into `out`; the group has several ranks.
void reduce_scatter_into(Lowering& low, std::string_view what, graph::TensorId in, graph::TensorId out,
                         graph::Channel channel);

/// Gives each of the group's ranks its parts of `x`, and returns the parts that they give to this rank; with one rank,
/// x itself. Of `sequences` sequences, of which each rank has the same share of the rows, all columns are there in
/// `ranks` parts, one below the other; they become all rows of one of the parts. `inverse` is the way back, and each
/// way is the other's adjoint.
Value all_to_all(Lowering& low, std::string_view what, const Value& x, std::int64_t sequences, bool inverse,
                 graph::Channel channel);

/// Concatenates `in` of all ranks in a new tensor [ranks·rows, cols]; with one rank, returns `in` itself.
graph::TensorId all_gather(Lowering& low, std::string_view what, graph::TensorId in, graph::Channel channel);

}  // namespace weft::ops
