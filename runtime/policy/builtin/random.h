// Policy `random`: a random topological order, as a baseline for other policies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Repeatedly draws one of the ready tasks, each equally likely, and for a computation a compute stream. Of a pipeline
/// it draws among the tasks of all stages; what several stages start together is one task. Uses neither costs nor the
/// memory limit. `seed`: of the draws; by default the options' seed.
class RandomPolicy final : public Policy {
 public:
  static constexpr plan::ReasonText kTexts[] = {{"drawn from the ready tasks with seed {}"}};
  static constexpr plan::ReasonTable kReasons{"random", kTexts};

  RandomPolicy() = default;
  explicit RandomPolicy(PolicyParameters& parameters);
  std::string name() const override { return "random"; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;

 private:
  std::optional<std::uint64_t> seed_;
};

}  // namespace weft::policy
