// Policy `fsdp`: weights are gathered a few layers ahead, as PyTorch's FullyShardedDataParallel does.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// The unit is a layer's visit in a pass (what stands outside of the layers counts as one). Gathers over z are issued
/// (Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023)
/// - `forward-depth` units ahead in the forward pass, at the start of that unit; 0: at the start of their own;
/// - `backward-depth` units ahead in the backward pass: with `backward` = pre before that unit's gradients, with post
///   behind them;
/// - never before the unit `max-gathered` places earlier is done: at most so many are gathered and not passed yet.
/// `reshard`: as a rewrite, weights are dropped behind the forward pass and gathered again. Gradients are reduced
/// behind the rest of the backward pass, and the rest is as in `program`.
class FsdpPolicy final : public Policy {
 public:
  FsdpPolicy() = default;
  explicit FsdpPolicy(PolicyParameters& parameters);
  std::string name() const override { return "fsdp"; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override;
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  bool post_ = false, reshard_ = true;
  std::int64_t forward_depth_ = 1, backward_depth_ = 1, max_gathered_ = 2;  // units
};

}  // namespace weft::policy
