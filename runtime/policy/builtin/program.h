// Policies `serial` and `program`: program order, one task at a time on all streams, or with collectives issued in
// place without blocking.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

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

/// The order in which each task of the sequence, which must be topological and complete, waits for the one before it.
plan::Order serial_order(const graph::Graph& graph, std::span<const graph::TaskId> sequence);
/// Such orders of all classes, in sequences that run together (pipeline/joint_orders.h).
std::vector<plan::Order> serial_orders(graph::Classes classes, const std::vector<std::vector<graph::TaskId>>& wanted,
                                       const PolicyOptions& options);

/// A collective overlaps with the tasks that follow it in program order until a task needs its result: only data edges
/// become waits. With two or more compute streams, gradients of weights run on the streams other than compute0, so that
/// they don't delay the chain of input gradients, which feeds the next collective. All contributions to one gradient
/// stay on one stream. `depth`: a weight is gathered over z at most `depth` layers ahead of the layer that uses it, in
/// the order of visits: after the first computation of that earlier layer's visit. Tasks outside of the layers
/// (embedding, head) count as a layer. Without `depth`, a gather runs as early as program order and its stream allow.
class ProgramPolicy final : public Policy {
 public:
  /// Of gathers that `depth` delays, besides kProgramReasons.
  static constexpr plan::ReasonText kTexts[] = {{"gathered no earlier than {} layers ahead of its use"}};
  static constexpr plan::ReasonTable kReasons{"program", kTexts};

  ProgramPolicy() = default;
  explicit ProgramPolicy(std::int64_t depth) : depth_(depth) {}
  explicit ProgramPolicy(PolicyParameters& parameters);
  std::string name() const override { return "program"; }
  /// Each class in its own order, except that a message or a collective of several classes comes where all its members
  /// can begin (pipeline/joint_orders.h).
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;

 private:
  plan::Order order_of(const graph::Graph& graph, const PolicyOptions& options) const;

  std::int64_t depth_ = -1;  // layers; -1: no limit
};

}  // namespace weft::policy
