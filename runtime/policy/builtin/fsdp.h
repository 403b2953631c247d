// Policy `fsdp`: weights are gathered a few layers ahead, as PyTorch's FullyShardedDataParallel does.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// A unit is a layer's visit in a pass (tasks outside of the layers count as a layer). Gathers over z are issued (Zhao
/// et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023)
/// - `forward-depth` units ahead in the forward pass, at the start of that unit; 0: at the start of their own;
/// - `backward-depth` units ahead in the backward pass: with `backward` = pre before that unit's gradients, with post
///   after them;
/// - never before the unit `max-gathered` places earlier is done: at most `max-gathered` units are gathered and not
///   done.
/// `reshard`: as a rewrite, weights are dropped after the forward pass and gathered again. Gradients are reduced after
/// the rest of the backward pass. All else is as in `program`.
class FsdpPolicy final : public OneClassPolicy {
 public:
  enum Code : std::uint16_t { kGatheredAhead, kGatheredAfter, kLimiter, kReducedAfter };
  static constexpr plan::ReasonText kTexts[] = {
      {"gathered ahead: {} layers in the forward, {} in the backward pass"},
      {"gathered {} layers ahead, after that layer's gradients"},
      {.pattern = "limiter: at most {} layers are gathered and not passed yet", .for_memory = true},
      {"gradient reduced after the rest of the backward pass"},
  };
  static constexpr plan::ReasonTable kReasons{"fsdp", kTexts};

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
