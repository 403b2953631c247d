// What a policy decides: which stream each task runs on, one total order of all tasks, and extra edges.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/reason.h"
#include "runtime/plan/stream.h"

namespace weft::plan {

/// The stream of a task and why it stands where it stands.
struct Placement {
  graph::TaskId task;
  StreamId stream;
  std::uint32_t reason = 0;  // index into Order::reasons
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// A topological order of the graph. A stream's queue is its subsequence; the collectives' subsequence is their one
/// total order, the same on every rank.
struct Order {
  std::vector<Stream> streams;
  std::vector<Placement> sequence;
  std::vector<graph::Edge> added_edges;  // reason = policy
  std::vector<Reason> reasons;
  friend bool operator==(const Order&, const Order&) = default;
};

/// Bytes of an order: rank 0 plans and broadcasts these, so that one decision reaches all ranks.
std::vector<std::byte> encode(const Order& order);

/// The order that `bytes` hold. Throws std::runtime_error when they are cut short, too long, name a task, stream,
/// tensor or reason that doesn't exist in `graph` or in the order, or hold a kind of reason that there is none of.
/// make_plan checks the rest.
Order decode_order(std::span<const std::byte> bytes, const graph::Graph& graph);

}  // namespace weft::plan
