#include "runtime/policy/pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace weft::policy {
namespace {

std::string chunks_text(const graph::PipelineChunks& chunks) {
  if (chunks.chunks == 1) return "one chunk of layers a rank";
  return fmt::format("{} chunks of layers a rank, placed as a {}", chunks.chunks, to_string(chunks.placement));
}

}  // namespace

bool has_stages(graph::Classes classes) {
  return std::ranges::any_of(classes, [](const auto& graph) {
    return std::ranges::any_of(graph->tasks(), [](const graph::Task& task) { return task.stage >= 0; });
  });
}

PipelineShape shape_of(graph::Classes classes, const graph::PipelineChunks& chunks, std::string_view policy) {
  PipelineShape shape{static_cast<std::int32_t>(classes.size()), chunks, 0};
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::set<std::int32_t> found, wanted;
    for (const graph::Task& task : classes[static_cast<std::size_t>(rank)]->tasks()) {
      if (task.stage < 0) continue;
      if (!found.contains(task.stage)) found.insert(task.stage);
      shape.micro_batches = std::max(shape.micro_batches, task.micro_batch + 1);
    }
    for (std::int32_t chunk = 0; chunk < chunks.chunks; ++chunk) wanted.insert(shape.stage_on(rank, chunk));
    if (found != wanted) {
      throw UserError(fmt::format("policy {} orders {}, and pipeline rank {} of {} holds the virtual stages {}", policy,
                                  chunks_text(chunks), rank, shape.ranks, fmt::join(found, ", ")),
                      fmt::format("the virtual stages {}", fmt::join(wanted, ", ")),
                      "lower the model with the chunks that this policy names, or choose another policy");
    }
  }
  return shape;
}

}  // namespace weft::policy
