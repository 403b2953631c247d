// Policy `dualpipe-v`: a forward pass beside each backward pass, with two chunks of layers a rank in a V.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// DualPipeV of DeepSeek (github.com/deepseek-ai/DualPipe), which is half of the DualPipe of "DeepSeek-V3 Technical
/// Report" (2412.19437), section 3.2.1, cut by Sea AI Lab ("DualPipe could be better without the Dual", 2025). The
/// first virtual stage and the last are on rank 0. In the middle of a step the tasks of a forward pass of one chunk
/// alternate with those of a backward pass of the other, so that one computes while the other communicates.
///
/// DeepSeek's table gives (PP/2 − 1)(F&B + B − 3W) of idle time and the activations of PP + 1 chunks, for PP virtual
/// stages; each of the p = PP/2 ranks holds two. F, B and W are times of a chunk: of a forward pass, a whole backward
/// pass and its part for weights; F&B of a forward beside a backward pass. Refuses fewer than 2p micro-batches.
class DualPipeVPolicy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("dualpipe-v");
  std::string name() const override { return "dualpipe-v"; }
  graph::PipelineChunks chunks() const override { return {2, graph::ChunkPlacement::v}; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;
};

}  // namespace weft::policy
