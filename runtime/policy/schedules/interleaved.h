// Policy `interleaved`: 1F1B with several chunks of layers a rank.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021),
/// section 2.2.2. Each rank holds `chunks` chunks (v), far apart in the model, and takes p micro-batches through one
/// chunk, then the same through the next. Rank k of p begins with 2(p − k − 1) + (v − 1)p forward passes of a chunk.
/// Each rank idles for (p − 1)(F + B)/v, with the times F and B of all its chunks. Refuses numbers of micro-batches
/// that p doesn't divide.
class InterleavedPolicy final : public FixedPipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("interleaved");
  explicit InterleavedPolicy(std::int64_t chunks = 2) : chunks_(chunks) {}
  explicit InterleavedPolicy(PolicyParameters& parameters) : chunks_(parameters.integer("chunks", 2, 2, 1000)) {}
  std::string name() const override { return "interleaved"; }
  graph::PipelineChunks chunks() const override { return {chunks_, graph::ChunkPlacement::loop}; }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const override;

 private:
  std::int64_t chunks_;
};

}  // namespace weft::policy
