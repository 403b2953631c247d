// Moves of tasks in an order, of which remedies are made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"

namespace weft::simulate {

enum class MoveKind : std::uint8_t {
  before,   // `task`, and what leads to it, goes directly before `anchor`, if it comes after that
  after,    // `task`, and what needs it, goes directly after `anchor`, if it comes before that
  release,  // `task` waits for nothing but its data: the policy's edges into it are dropped
  wait,     // `task` waits for the end of `anchor`
  detach,   // tasks that don't need `task` don't wait for it: the policy's edges to them are dropped
};

struct OrderMove {
  MoveKind kind = MoveKind::before;
  graph::TaskId task, anchor;
  friend bool operator==(const OrderMove&, const OrderMove&) = default;
};

/// The sequence of a plan as an order that can be changed and planned again.
plan::Order order_of(const plan::Plan& plan);

/// Makes the moves one after the other. Then drops the policy's edges that the changed sequence contradicts. Returns
/// "", or, when the graph forbids a move, why; then the order is of no use.
std::string apply(const graph::Graph& graph, const std::vector<OrderMove>& moves, plan::Order& order);

/// The moves with the tasks of another graph that have the same names. Sets `missing` to the name of the first task
/// that it lacks.
std::vector<OrderMove> translated(const std::vector<OrderMove>& moves, const graph::Graph& from, const graph::Graph& to,
                                  std::string& missing);

}  // namespace weft::simulate
