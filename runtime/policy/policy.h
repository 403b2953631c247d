// The interface of scheduling policies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/order.h"
#include "runtime/plan/rewrite.h"

namespace weft::policy {

/// The inputs of a policy besides the graph.
struct PolicyOptions {
  int compute_streams = 1;
  std::int64_t memory = 0;        // bytes of state and scratch that the plan may take; 0: no limit
  std::int64_t memory_limit = 0;  // bytes of scratch that it may take; 0: no limit
  /// Of list schedules: a weight's gather starts at most this many gathers before its turn, that is, after the first
  /// use of an earlier weight is done; 0: as early as its stream allows.
  std::int64_t gathers_ahead = 0;
  std::uint64_t seed = 0;                                       // of policies that draw random numbers
  std::shared_ptr<const cost::CostModel> cost_model = nullptr;  // null: default_cost_model()
  /// Contention, as in the simulator. The machine tells how computations and collectives slow each other down; null:
  /// not at all. Channels with equal numbers share a link; empty: each channel has its own link.
  std::shared_ptr<const cost::Machine> machine = nullptr;
  std::vector<int> link_of_channel = {};
  const plan::WeightLayouts* weight_layouts = nullptr;  // of the device that runs the plan; null: no packing of weights
  /// Asked before each order that is tried against a memory limit: true ends the planning by PlanningStopped. It never
  /// changes which plan is made.
  std::function<bool()> is_unwanted = {};
};

struct PlanningStopped : std::runtime_error {
  PlanningStopped() : std::runtime_error("the plan is no longer wanted") {}
};

/// The same but for memory, of which the plan may take any number of bytes.
PolicyOptions without_limits(PolicyOptions options);

/// Bytes of the tensors that outlive a step: parameters, optimizer state, …
std::int64_t state_bytes(const graph::Graph& graph);

/// Bytes of scratch that a plan of the graph may take under the options; 0: any number.
std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options);

/// The steps that a policy orders: steps of one class, any steps, or pipelines (and any other step as `program` does).
enum class PolicyScope : std::uint8_t { one_class, any, pipelines };

/// Two pure functions: from a graph to rewrites, and from the rewritten graphs of all rank classes to their orders.
/// Equal inputs must give equal results, on every rank and in every run.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  /// The rewrites of a class to apply before orders() (runtime/plan/rewrite.h); by default none.
  virtual std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const;
  /// Whether the policy's rewrites alone decide which weights are packed; if so, the caller adds no packing.
  virtual bool decides_packing() const { return false; }
  /// Whether an order that takes too much memory may be changed (runtime/policy/builtin/fit_memory.h); if not, it is
  /// refused.
  virtual bool may_be_reordered() const { return true; }
  /// Whether layers may be computed again and weights gathered again where that makes a step shorter that is short of
  /// memory, or makes it fit (runtime/policy/compile/rewrite_to_fit.h).
  virtual bool rewrites_to_fit() const { return false; }
  /// An order of each rank class, without a deadlock between them. Throws UserError on options out of range, and on a
  /// step that the policy can't order.
  virtual std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const = 0;
  /// The steps that orders() takes; decide() refuses others, and names the policies that take them.
  virtual PolicyScope scope() const { return PolicyScope::any; }
  /// The chunks of layers that each rank of a pipeline holds under this policy.
  graph::PipelineChunks chunks() const { return chunks_; }

 protected:
  graph::PipelineChunks chunks_;
};

/// A policy that orders a step of one class. order() takes its memory limit from scratch_limit().
class OneClassPolicy : public Policy {
 public:
  PolicyScope scope() const final { return PolicyScope::one_class; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const final;
  virtual plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const = 0;
};

/// The costs of a graph by the options' cost model.
cost::TaskCosts costs_of(const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
