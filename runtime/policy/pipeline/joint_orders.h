// Merges the orders that the rank classes of a pipeline want into orders without a deadlock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/pipeline/pipeline.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// The reasons of tasks that several classes start together, and of tasks outside of a schedule's units.
enum PipelineReason : std::uint16_t { kAtBothEnds, kTogether, kBeforeFirst, kAfterLast };
inline constexpr plan::ReasonText kPipelineTexts[] = {
    {"issued as soon as both ends can begin, beside computations"},
    {"together with the other pipeline stages"},
    {"before the first micro-batch"},
    {"after the last micro-batch, in program order"},
};
inline constexpr plan::ReasonTable kPipelineReasons{"pipeline", kPipelineTexts};

/// The order that a schedule wants of one class.
struct WantedSequence {
  std::vector<graph::TaskId> tasks;   // all, in any order; messages may stand anywhere
  std::vector<std::uint32_t> item;    // by task: the schedule's entry that it belongs to, an index into reasons
  std::vector<plan::Reason> reasons;  // by entry, in the order in which entries begin
};

/// Replays one step of all classes in virtual time and places each task where it starts. Each class has one compute
/// stream, which follows the wanted sequence, as do collectives within the class. Three things differ from it:
/// - a task that an earlier one depends on comes before it;
/// - a message is placed on both ranks at once, as soon as both ends can begin: a receive is issued when its send is,
///   beside the receiver's computations. So are collectives of channels that several classes share;
/// - where the classes would wait for each other in a cycle, the first ready task in program order goes ahead.
/// So each class's order is one order of the whole step, restricted to the class. The classes can't deadlock in it,
/// nor can they if a rank has only one queue for all communication.
///
/// Added edges give the memory planner buffers to use again: a receive waits for the last entry that was over when its
/// message could begin, and an entry waits for sends that were over one entry before.
std::vector<plan::Order> joint_orders(graph::Classes classes, std::span<const cost::TaskCosts> costs,
                                      const std::vector<WantedSequence>& wanted, const PolicyOptions& options);

/// The sequences of such orders, without reasons and added edges. `wanted`: topological; with a single class the
/// result.
std::vector<std::vector<graph::TaskId>> joint_sequences(graph::Classes classes,
                                                        const std::vector<std::vector<graph::TaskId>>& wanted,
                                                        const PolicyOptions& options);

/// Orders that each class wants by itself, in such sequences. With a single class they stay as they are.
std::vector<plan::Order> joined_orders(graph::Classes classes, std::vector<plan::Order> orders,
                                       const PolicyOptions& options);

}  // namespace weft::policy
