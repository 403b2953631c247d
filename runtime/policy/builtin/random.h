// Policy `random`: a random topological order. Shows whether another policy beats luck.
#pragma once

#include <optional>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Again and again one of the ready tasks, each as likely as the others; computations on any compute stream. Knows
/// neither costs nor the memory limit. `seed`: of the draws; by default the options' seed.
class RandomPolicy final : public Policy {
 public:
  RandomPolicy() = default;
  explicit RandomPolicy(PolicyParameters& parameters);
  std::string name() const override { return "random"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  std::optional<std::uint64_t> seed_;
};

/// The parameter `seed`, if it is given.
std::optional<std::uint64_t> seed_parameter(PolicyParameters& parameters);

}  // namespace weft::policy
