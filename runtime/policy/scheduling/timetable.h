// When the tasks of an order begin and end, and its makespan, by which searches compare orders.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/class_tasks.h"

namespace weft::policy {

/// One step, by task, in the unit of the costs.
struct Timetable {
  std::vector<double> start, finish;
  double makespan = 0;  // the end of the last task
};

/// Each lane (class_tasks.h) runs its queue one node at a time, with the contention that the options describe
/// (running_lanes.h); a node starts as soon as its edges of distance 0 (the graphs' and the added edges) allow. As in a
/// plan, an edge issued_before between two streams waits for completion. The sequences must be topological, and the
/// orders of several classes must run together (pipeline/joint_orders.h); a node with several members takes its place
/// from the order of its first one. Equal to the simulator's times of homogeneous ranks, if the orders' plans have
/// no waits beyond these edges. By number of a task; all members of a node have its times. Takes O(tasks · streams +
/// edges). `tasks` has the orders' streams.
Timetable timetable_of(const ClassTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options);
Timetable timetable_of(graph::Classes classes, std::span<const plan::Order> orders,
                       std::span<const cost::TaskCosts> costs, const PolicyOptions& options);

}  // namespace weft::policy
