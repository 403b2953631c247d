// The interface of scheduling policies and the list of built-in ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/order.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/trusted_libraries.h"

namespace weft::policy {

/// What a policy may know beside the graph.
struct PolicyOptions {
  int compute_streams = 1;
  std::int64_t memory_limit = 0;                                // bytes of scratch that the plan may take; 0: no limit
  std::uint64_t seed = 0;                                       // of policies that draw
  std::shared_ptr<const cost::CostModel> cost_model = nullptr;  // null: default_cost_model()
  /// What contends, as in the simulator: computations with collectives beside them (null: never), and channels that
  /// have equal numbers, on one link (empty: each has a link of its own).
  std::shared_ptr<const cost::Machine> machine = nullptr;
  std::vector<int> link_of_channel = {};
  const plan::WeightLayouts* weight_layouts = nullptr;  // of the device that runs the plan; null: nothing packs weights
};

/// Two pure functions, from a graph to rewrites of it and from the rewritten graph to an order: equal inputs give equal
/// results, on every rank and every day.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  /// What to change in the graph before it is ordered (runtime/plan/rewrite.h); by default nothing.
  virtual std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const;
  /// Whether its rewrites say themselves which weights are packed, so that nobody adds packing for it.
  virtual bool decides_packing() const { return false; }
  /// Of the rewritten graph. Throws UserError on options out of range.
  virtual plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const = 0;
};

/// The names that `--policy` takes.
std::vector<std::string> policy_names();

/// By name, with parameters behind a colon: "axonn:oar=off". "file:PATH" replays a plan file, "PATH.so:parameters" asks
/// a shared library (runtime/policy/policy_library.h), which has to be one of `libraries`. Throws UserError naming the
/// nearest policy or parameter, or the flag that loads a library.
std::unique_ptr<Policy> make_policy(std::string_view name, const TrustedLibraries& libraries = {});

/// What orders where nobody names a policy: `program`, as it is without parameters.
std::unique_ptr<Policy> default_policy();

/// A policy, and what a person called it.
struct NamedPolicy {
  std::string name;  // as make_policy() took it: "axonn:oar=off"
  std::shared_ptr<const Policy> policy;

  const Policy& operator*() const { return *policy; }
  const Policy* operator->() const { return policy.get(); }
};

/// Throws what make_policy() throws.
NamedPolicy named_policy(std::string name, const TrustedLibraries& libraries = {});

/// The costs of a graph as the options say.
cost::TaskCosts costs_of(const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
