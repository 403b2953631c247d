// Applies each kind of rewrite by its function. Separate from runtime/plan/rewrite.cpp, so that reading the texts of
// rewrites doesn't need graphs.
#include <stdexcept>

#include "base/overloaded.h"
#include "runtime/plan/rewrite.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {

std::shared_ptr<const graph::Graph> rewrite(std::shared_ptr<const graph::Graph> graph,
                                            std::span<const Rewrite> rewrites, const WeightLayouts* layouts) {
  if (graph->has_opaque_tasks()) return graph;
  for (const Rewrite& each : rewrites) {
    graph = std::visit(
        Overloaded{[&](const BucketAllReduces& r) { return bucket_all_reduces(*graph, r); },
                   [&](const SplitAllReduces& r) { return split_all_reduces(*graph, r); },
                   [&](const ReduceScatterAllGather&) { return split_into_reduce_scatter_all_gather(*graph); },
                   [&](const ReshardAfterForward& r) { return reshard_after_forward(*graph, r); },
                   [&](const RecomputeLayers& r) { return recompute_layers(*graph, r); },
                   [&](const PackWeights& r) {
                     if (layouts == nullptr) throw std::logic_error("pack-weights without the layouts of a device");
                     return pack_weights(*graph, r, *layouts);
                   },
                   [&](const FuseGelu&) { return fuse_gelu(*graph); },
                   [&](const FuseResidual&) { return fuse_residual(*graph); },
                   [&](const FuseBiasGradient&) { return fuse_bias_gradient(*graph); }},
        each);
  }
  return graph;
}

}  // namespace weft::plan
