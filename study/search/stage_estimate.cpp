#include "study/search/stage_estimate.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "graph/operations/schema.h"
#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::study {
namespace {

/// Whether the policy runs gradients of weights, a third of the work, where a rank would be idle.
bool fills_idle_time(const policy::Policy& policy) {
  const std::string name = policy.name();
  return name != "gpipe" && name != "1f1b" && name != "interleaved";
}

bool one_by_one(const policy::Policy& policy) {
  return policy.name() == "program" || policy.name() == "serial" || policy.name() == "random";
}

}  // namespace

StageEstimate::StageEstimate(const train::RunConfig& config, const Choice& choice,
                             std::span<const policy::NamedPolicy> schedules) {
  const std::int64_t pipe = choice.grid.pipe;
  if (pipe == 1) return;
  stages_ = graph::as_double(pipe);
  const std::int64_t micro_batches = config.global_batch / (choice.grid.batch_ranks() * choice.micro_batch);
  double least = std::numeric_limits<double>::infinity();
  for (const policy::NamedPolicy& schedule : schedules) {
    const graph::PipelineChunks chunks = schedule->chunks();
    if (chunks.stages(pipe) > config.model.layers) continue;
    const ops::PipelineLayout layout = ops::balanced_layout(config.model, config.seq_len, pipe, chunks);
    double idle = (stages_ - 1) / graph::as_double(chunks.chunks);
    if (one_by_one(*schedule)) {
      idle = (stages_ - 1) * graph::as_double(micro_batches);
    } else if (fills_idle_time(*schedule)) {
      idle /= 3;
    }
    least = std::min(
        least, ops::imbalance(config.model, config.seq_len, layout) * (1 + idle / graph::as_double(micro_batches)));
  }
  factor_ = least < std::numeric_limits<double>::infinity() ? least / stages_ : 0;
}

}  // namespace weft::study
