// Policy `zb-v`: a schedule without idle time between passes, with two chunks of layers a rank in a V.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), section 6: ZB-V, for F = B = W, the times of a forward
/// pass and of the two parts of a backward pass. The first virtual stage and the last are on rank 0. From its first
/// unit to its last a rank never idles, with messages that take no time; rank k begins (k/2)F later than rank 0, of
/// which F is the time of both chunks. Each rank keeps the activations of p micro-batches, as the first one of 1F1B
/// does. Fewer than 2p − 1 micro-batches follow the schedule of 2p − 1, with the others left out.
class ZbVPolicy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("zb-v");
  std::string name() const override { return "zb-v"; }
  graph::PipelineChunks chunks() const override { return {2, graph::ChunkPlacement::v}; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;
};

}  // namespace weft::policy
