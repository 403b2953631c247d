#include "runtime/policy/schedules/published.h"

#include "runtime/policy/schedules/dual_pipe_v.h"
#include "runtime/policy/schedules/gpipe.h"
#include "runtime/policy/schedules/interleaved.h"
#include "runtime/policy/schedules/one_forward_one_backward.h"
#include "runtime/policy/schedules/zb_h1.h"
#include "runtime/policy/schedules/zb_v.h"

namespace weft::policy {

std::vector<std::unique_ptr<FixedPipelinePolicy>> published_schedules(const graph::PipelineChunks& chunks) {
  std::vector<std::unique_ptr<FixedPipelinePolicy>> policies;
  policies.push_back(std::make_unique<GpipePolicy>());
  policies.push_back(std::make_unique<OneForwardOneBackwardPolicy>());
  policies.push_back(std::make_unique<ZbH1Policy>());
  policies.push_back(std::make_unique<ZbVPolicy>());
  policies.push_back(std::make_unique<DualPipeVPolicy>());
  if (chunks.chunks > 1) policies.push_back(std::make_unique<InterleavedPolicy>(chunks.chunks));
  std::erase_if(policies, [&](const auto& policy) { return policy->chunks() != chunks; });
  return policies;
}

}  // namespace weft::policy
