// Policy `serial`: program order, one task at a time on all streams. The baseline of every measure of overlap.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Nothing ever runs beside a collective: each task waits for the one before it in program order, and a step's first
/// task for the last one of the step before. Always uses one compute stream, as a second could never be busy at the
/// same time.
class SerialPolicy final : public Policy {
 public:
  /// Of communication. Computations have kProgramOrder.
  static constexpr plan::ReasonText kTexts[] = {{"blocking: no computation runs while a collective does"}};
  static constexpr plan::ReasonTable kReasons{"serial", kTexts};

  std::string name() const override { return "serial"; }
  /// Each class in program order, except that a message or a collective of several classes comes where all its members
  /// can begin (pipeline/joint_orders.h).
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
};

/// All tasks, in program order.
std::vector<graph::TaskId> program_sequence(const graph::Graph& graph);

/// The order in which each task of the sequence, which must be topological and complete, waits for the one before it.
plan::Order serial_order(const graph::Graph& graph, std::span<const graph::TaskId> sequence);
/// Such orders of all classes, in sequences that run together (pipeline/joint_orders.h).
std::vector<plan::Order> serial_orders(graph::Classes classes, const std::vector<std::vector<graph::TaskId>>& wanted,
                                       const PolicyOptions& options);

}  // namespace weft::policy
