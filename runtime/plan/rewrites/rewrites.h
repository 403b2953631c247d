// The rewrites one by one; runtime/plan/rewrite.h says what each is for and applies lists of them.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "runtime/plan/rewrite.h"

namespace weft::plan {

/// Joined are all-reduces of one channel, phase and micro-batch between which the channel has no other collective.
/// A bucket stands where its last member stood; tasks that wait for an earlier member move behind it. An all-reduce
/// that waits for such a task begins a bucket of its own. Tensors lie side by side in the new one, each at a multiple
/// of 64 bytes: one at most whose size is no such multiple joins, as the last. Parts of one tensor join where they lie
/// side by side, so that tensors which one channel's bucket joined share a message on the next channel too.
std::shared_ptr<const graph::Graph> bucket_all_reduces(const graph::Graph& graph, const BucketAllReduces& rewrite);

/// Pieces begin at multiples of 64 bytes of the buffer, so the least size of a piece is 64 bytes. Each piece has a
/// workspace of its own, and who reads a part of the buffer waits for the pieces that it reads.
std::shared_ptr<const graph::Graph> split_all_reduces(const graph::Graph& graph, const SplitAllReduces& rewrite);

/// Tasks `name`.reduce_scatter and `name`.all_gather, through a tensor of the rank's shard.
std::shared_ptr<const graph::Graph> split_into_reduce_scatter_all_gather(const graph::Graph& graph);

/// Every pass of a micro-batch that reads a gathered tensor gathers it itself (`name`.again); the first keeps the
/// gather that is there. Tensors that no backward task reads are left alone.
std::shared_ptr<const graph::Graph> reshard_after_forward(const graph::Graph& graph,
                                                          const ReshardAfterForward& rewrite);

/// Forward tasks of a layer and micro-batch that its backward tasks depend on run again (`name`.recompute) before the
/// first of these. What comes from outside of the layer, gathered weights, and what another layer's backward pass reads
/// too (so it would be kept in any case) stays.
std::shared_ptr<const graph::Graph> recompute_layers(const graph::Graph& graph, const RecomputeLayers& rewrite);

/// A task `name`.pack before the first of the products `name` that read the same view of a parameter, or of a gathered
/// one, the same way round; they get its result as their last argument. Only products whose default method is the
/// packed one count, so the graph depends on the CPU's vectors. A view that is written between its first and its last
/// product is left alone, and so is what is gathered for fewer products than `rewrite.uses`.
std::shared_ptr<const graph::Graph> pack_weights(const graph::Graph& graph, const PackWeights& rewrite,
                                                 const WeightLayouts& layouts);

/// A product writes a whole matrix, and a GELU of the same layer, micro-batch and phase reads it whole: one task of the
/// product's name, in its place, writes both. A product without a bias writes a gradient that only GELU's gradient
/// reads: one task in the product's place reads GELU's input instead and writes the gradient with respect to that.
/// Left alone is what another task changes in between (an all-reduce, a bias that is added later), what isn't read or
/// written whole, and a gradient that has other readers.
std::shared_ptr<const graph::Graph> fuse_gelu(const graph::Graph& graph);

}  // namespace weft::plan
