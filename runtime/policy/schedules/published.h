// The published schedules that divide the layers in one way, for searches that start from the best of them.
#pragma once

#include <memory>
#include <vector>

#include "graph/pipeline_chunks.h"
#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// Of these chunks a rank: gpipe, 1f1b, zb-h1, zb-v, dualpipe-v, interleaved, as far as they have them.
std::vector<std::unique_ptr<FixedPipelinePolicy>> published_schedules(const graph::PipelineChunks& chunks);

}  // namespace weft::policy
