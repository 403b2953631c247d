// Policy `gpipe`: all forward passes, then all backward passes.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism" (NeurIPS 2019),
/// section 2.3. With p ranks, m micro-batches and times F and B of a forward and a backward pass, each rank idles for
/// (p − 1)(F + B), and keeps the activations of m micro-batches. Backward passes run in the order of the forward
/// passes, in which gradients are added up.
class GpipePolicy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("gpipe");
  std::string name() const override { return "gpipe"; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;
};

}  // namespace weft::policy
