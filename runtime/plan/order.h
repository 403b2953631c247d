// A policy's result: a stream for each task, one total order of all tasks, and added edges.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/reason.h"
#include "runtime/plan/stream.h"

namespace weft::plan {

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

/// An order as bytes, which rank 0 broadcasts so that all ranks use the same order.
std::vector<std::byte> encode(const Order& order);

/// Decodes the order that `bytes` hold. Throws std::runtime_error when they are cut short, too long, name a task,
/// stream, tensor or reason that doesn't exist in `graph` or in the order, or hold a reason that isn't in `tables`.
/// make_plan() checks the rest.
Order decode_order(std::span<const std::byte> bytes, const graph::Graph& graph, ReasonTables tables);

}  // namespace weft::plan
