#include "runtime/policy/pipeline/chunks_parameter.h"

#include <cstdint>

namespace weft::policy {

graph::PipelineChunks chunks_parameter(PolicyParameters& parameters) {
  const std::int64_t chunks = parameters.integer("chunks", 1, 1, 1000);
  const bool v = parameters.word("placement", "loop", {"loop", "v"}) == "v";
  return {chunks, v ? graph::ChunkPlacement::v : graph::ChunkPlacement::loop};
}

}  // namespace weft::policy
