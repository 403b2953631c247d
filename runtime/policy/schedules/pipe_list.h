// Policy `pipe-list`: the best of a few list schedules of all ranks of a pipeline together.
#pragma once

#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Whenever a rank is idle in virtual time, it starts a unit of work that can begin: a forward pass, or either part of
/// a backward pass, of one chunk and micro-batch. Each of three rules that choose (pipeline/unit_list.h) is tried with
/// several numbers of forward passes in flight. The shortest step in the model of units (pipeline/unit_model.h) counts;
/// if any keeps the memory limits of all ranks, the shortest one that does. `chunks` and `placement` (loop or v) are of
/// the layers.
class PipeListPolicy final : public PipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("pipe-list");
  PipeListPolicy() = default;
  explicit PipeListPolicy(graph::PipelineChunks chunks) : chunks_(chunks) {}
  explicit PipeListPolicy(PolicyParameters& parameters);
  std::string name() const override { return "pipe-list"; }
  graph::PipelineChunks chunks() const override { return chunks_; }

 protected:
  PipelineSchedules schedules(const PipelineProgram& program, const PolicyOptions& options) const override;
  bool keeps_limits() const override { return true; }

 private:
  graph::PipelineChunks chunks_;
};

}  // namespace weft::policy
