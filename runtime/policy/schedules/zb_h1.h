// Policy `zb-h1`: 1F1B with gradients of weights as a filling.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), section 2.3: the handcrafted schedule ZB-H1. It is 1F1B
/// in which a rank sends the gradient of its input before it computes those of its weights, and rank k of p puts the
/// latter off by k micro-batches. Each rank keeps the activations of p micro-batches, as the first one of 1F1B does,
/// and idles for (p − 1)(F + B − W), with the times F of a forward pass and B and W of the two parts of a backward
/// pass.
class ZbH1Policy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("zb-h1");
  std::string name() const override { return "zb-h1"; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;
};

}  // namespace weft::policy
