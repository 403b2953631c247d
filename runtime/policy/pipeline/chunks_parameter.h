// The chunks of layers of policies that order pipelines of any shape.
#pragma once

#include "graph/pipeline_chunks.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// The parameters `chunks` (1) and `placement` (loop or v).
graph::PipelineChunks chunks_parameter(PolicyParameters& parameters);

}  // namespace weft::policy
