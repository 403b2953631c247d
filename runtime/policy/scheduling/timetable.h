// When the tasks of an order begin and end, and its makespan, by which searches compare orders.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/pipeline/joint_tasks.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// One step, by task, in the unit of the costs.
struct Timetable {
  std::vector<double> start, finish;
  double makespan = 0;  // the end of the last task
};

/// Each stream runs its queue one task at a time, with the contention that the options describe (running_lanes.h); a
/// task starts as soon as its edges of distance 0 (the graph's and the added edges) allow. As in a plan, an edge
/// issued_before between two streams waits for completion. The sequence must be topological. Equal to the simulator's
/// times of ranks that are alike, if the order's plan has no waits beyond these edges. Takes O(tasks · streams +
/// edges).
Timetable timetable_of(const graph::Graph& graph, const plan::Order& order, const cost::TaskCosts& costs,
                       const PolicyOptions& options);

/// The same of several classes whose orders run together (pipeline/joint_orders.h), by number of a task; other members
/// than a node's first one have its times. A node with several members takes its place from the order of its first one.
Timetable timetable_of(const JointTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options);

}  // namespace weft::policy
