// Streams: the in-order queues of a rank. A policy assigns computations to compute streams; every channel has its own
// stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "graph/graph.h"

namespace weft::plan {

using StreamId = Id<struct StreamTag>;

struct Stream {
  std::string name;  // "compute0", "data", …
  bool compute = true;
  graph::Channel channel = graph::Channel::world;  // only of a communication stream
  friend bool operator==(const Stream&, const Stream&) = default;
};

/// `compute_streams` compute streams, then one stream for each channel that the graph's collectives use, in the order
/// of graph::Channel. Throws UserError unless compute_streams ≥ 1.
std::vector<Stream> streams_of(const graph::Graph& graph, int compute_streams);

/// The stream of a channel's collectives; invalid when there is none.
StreamId stream_of_channel(std::span<const Stream> streams, graph::Channel channel);

}  // namespace weft::plan
