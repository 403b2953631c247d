// The plan: the immutable result of compiling a graph under a policy. The executors, the simulator, the drawings and
// the checker all take this object.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/order.h"

namespace weft::plan {

/// A condition: stream `stream` has completed its entry `entry` of this step (distance 0) or of the previous step
/// (distance 1).
struct Wait {
  StreamId stream;
  std::uint32_t entry = 0;
  std::uint8_t distance = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

struct Entry {
  graph::TaskId task;
  std::vector<Wait> waits;   // minimal: stream order and the other waits imply none of them
  bool signals = false;      // another stream waits for this entry
  std::uint32_t reason = 0;  // index into Plan::reasons
};

struct StreamPlan {
  Stream stream;
  std::vector<Entry> entries;
};

/// The place of a task.
struct Position {
  StreamId stream;
  std::uint32_t entry = 0;
};

inline constexpr std::int64_t kNoOffset = -1;

struct Plan {
  std::shared_ptr<const graph::Graph> graph;
  std::string policy;
  std::vector<StreamPlan> streams;
  std::vector<Position> position;          // by task
  std::vector<std::int64_t> offset;        // by tensor: byte offset in the scratch arena; kNoOffset for state,
                                           // 0 for scratch that no task accesses, which takes no bytes
  std::int64_t scratch_bytes = 0;          // the arena's size
  std::int64_t sum_of_tensor_bytes = 0;    // size of all scratch tensors without sharing, each aligned
  std::vector<graph::TaskId> sequence;     // the policy's total order
  std::vector<graph::TaskId> collectives;  // the subsequence of collectives
  std::vector<graph::Edge> added_edges;    // by the policy and by the memory planner
  std::vector<Reason> reasons;
  std::uint64_t fingerprint = 0;             // of graph, order, offsets, waits and tuned products (agree_on_plan.h)
  std::uint64_t collective_fingerprint = 0;  // of the order of collectives only, on which ranks must agree
};

/// Makes a plan of an order: plans memory (plan_memory.h) and computes minimal waits (plan_waits.h). Throws
/// std::logic_error naming the task if the order violates an edge of the graph or of its own, or puts a task on a
/// stream of the wrong kind; either is a bug of the policy.
Plan make_plan(std::shared_ptr<const graph::Graph> graph, const Order& order, std::string policy_name);

/// Bytes of one rank by role. For roles of state: the total. For roles of scratch: the peak over the plan's order.
/// Roles peak at different moments, so the scratch roles may add up to more than `arena`, the bytes that the plan
/// allocates.
struct MemoryReport {
  std::array<std::int64_t, graph::kRoles> bytes{};  // by role
  std::int64_t state = 0, arena = 0;

  std::int64_t of(graph::Role role) const { return bytes[static_cast<std::size_t>(role)]; }
  std::int64_t total() const { return state + arena; }
};

MemoryReport memory_report(const Plan& plan);

/// The rewrites that the policy chose so that the plan fits its memory, or for a shorter step within it
/// (runtime/policy/compile/rewrite_to_fit.h): "recompute=0-3;reshard"; "" if there are none.
std::string rewrites_for_memory(const Plan& plan);

}  // namespace weft::plan
