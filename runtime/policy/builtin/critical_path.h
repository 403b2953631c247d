// Policy `critical-path`: a list schedule by the longest path to the end of the step.
#pragma once

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Whenever a stream is idle, its ready task with the largest cost + longest path after it starts (the upward rank of
/// Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling", 2002), ties in program order,
/// under the memory limit (list_schedule.h).
class CriticalPathPolicy final : public Policy {
 public:
  std::string name() const override { return "critical-path"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;
};

}  // namespace weft::policy
