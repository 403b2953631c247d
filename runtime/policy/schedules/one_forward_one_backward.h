// Policy `1f1b`: one forward, one backward pass in turn after a short warm-up.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training" (SOSP 2019), section 3.2, with a
/// flush at the end of each step as in Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
/// Using Megatron-LM" (SC 2021), section 2.2.1. Rank k of p begins with p − k − 1 forward passes. Each rank idles as
/// long as with `gpipe`, and rank k keeps the activations of only p − k micro-batches.
class OneForwardOneBackwardPolicy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("1f1b");
  std::string name() const override { return "1f1b"; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;
};

}  // namespace weft::policy
