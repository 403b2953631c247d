// Policy `critical-path`: a list schedule by the longest path to the end of the step.
#pragma once

#include <string>
#include <vector>

#include "runtime/policy/pipeline/chunks_parameter.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Whenever a stream is idle, its ready task with the largest cost + longest path after it starts (the upward rank of
/// Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling", 2002), ties in program order,
/// under the memory limit (list_schedule.h). Of a pipeline the path goes through all stages. `chunks` and `placement`:
/// of a pipeline's layers (pipeline/chunks_parameter.h).
class CriticalPathPolicy final : public Policy {
 public:
  CriticalPathPolicy() = default;
  explicit CriticalPathPolicy(graph::PipelineChunks chunks) : chunks_(chunks) {}
  explicit CriticalPathPolicy(PolicyParameters& parameters) : chunks_(chunks_parameter(parameters)) {}
  std::string name() const override { return "critical-path"; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
  graph::PipelineChunks chunks() const override { return chunks_; }

 private:
  graph::PipelineChunks chunks_;
};

}  // namespace weft::policy
