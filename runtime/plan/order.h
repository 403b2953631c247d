// A policy's result: a stream for each task, one total order of all tasks, and added edges. Streams are the in-order
// queues of a rank: a policy assigns computations to compute streams, and every channel has its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "graph/graph.h"
#include "runtime/plan/reason.h"

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

/// The stream of a task, and the reason for its position in the order.
struct Placement {
  graph::TaskId task;
  StreamId stream;
  std::uint32_t reason = 0;  // index into Order::reasons
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// A topological order of the graph. The subsequence of a stream's tasks is its queue. The subsequence of the
/// collectives is their total order, which is the same on every rank.
struct Order {
  std::vector<Stream> streams;
  std::vector<Placement> sequence;
  std::vector<graph::Edge> added_edges;  // reason = policy
  std::vector<Reason> reasons;
  friend bool operator==(const Order&, const Order&) = default;
};

}  // namespace weft::plan
