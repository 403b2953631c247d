// The function of each rewrite; runtime/plan/rewrite.h describes the rewrites and applies lists of them.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "runtime/plan/rewrite.h"

namespace weft::plan {

/// Joins all-reduces of one channel, phase and micro-batch if the channel has no other collective between them. A
/// bucket takes its last member's position; tasks that wait for an earlier member move after it. An all-reduce that
/// waits for such a task begins a new bucket. The tensors are contiguous in the bucket's tensor, each at a multiple of
/// 64 bytes; a tensor whose size isn't a multiple of 64 bytes can only be the last. Contiguous parts of one tensor join
/// too, so that tensors that were joined for one channel also share a message on the next channel.
std::shared_ptr<const graph::Graph> bucket_all_reduces(const graph::Graph& graph, const BucketAllReduces& rewrite);

/// Pieces begin at multiples of 64 bytes of the buffer, so a piece has at least 64 bytes. Each piece has its own
/// workspace. A reader of a part of the buffer only waits for the pieces that it reads.
std::shared_ptr<const graph::Graph> split_all_reduces(const graph::Graph& graph, const SplitAllReduces& rewrite);

/// Makes tasks `name`.reduce_scatter and `name`.all_gather, with a new tensor for the rank's shard between them.
std::shared_ptr<const graph::Graph> split_into_reduce_scatter_all_gather(const graph::Graph& graph);

/// Every pass of a micro-batch that reads a gathered tensor gathers it itself (`name`.again); the first pass keeps the
/// existing gather. Doesn't change tensors that no backward task reads.
std::shared_ptr<const graph::Graph> reshard_after_forward(const graph::Graph& graph,
                                                          const ReshardAfterForward& rewrite);

/// The forward tasks of a layer and micro-batch on which its backward tasks depend run again (`name`.recompute) before
/// the first backward task. Tensors from outside of the layer, gathered weights, and tensors that another layer's
/// backward pass also reads are kept.
std::shared_ptr<const graph::Graph> recompute_layers(const graph::Graph& graph, const RecomputeLayers& rewrite);

/// Adds a task `name`.pack before product `name`, the first of the products that read the same view of a parameter or
/// of a gathered parameter with the same transposition; these products read its result as their last argument. Only
/// products whose default method is the packed one count, so the graph depends on the CPU's vector width. A view that
/// is written between its first and its last product, or that fewer products than `rewrite.uses` read, isn't packed.
std::shared_ptr<const graph::Graph> pack_weights(const graph::Graph& graph, const PackWeights& rewrite,
                                                 const WeightLayouts& layouts);

/// Forward: where a GELU reads the whole matrix that a product of the same layer, micro-batch and phase writes, one
/// task with the product's name and position writes both results. Backward: where only GELU's gradient reads the
/// gradient that a product without a bias writes, one task at the product's position reads GELU's input and writes the
/// gradient with respect to it. Doesn't fuse if another task changes the matrix in between (an all-reduce, a bias added
/// later), if the matrix isn't read and written as a whole, or if the gradient has other readers.
std::shared_ptr<const graph::Graph> fuse_gelu(const graph::Graph& graph);

/// Forward: where an addition is the only reader of the whole matrix that a product of the same layer and micro-batch
/// writes, one task with the product's name and position writes the sum. Doesn't fuse where fuse_gelu() wouldn't, for
/// the same reasons, or where the other addend isn't whole or is written after the product.
std::shared_ptr<const graph::Graph> fuse_residual(const graph::Graph& graph);

/// Where a weight's gradient of the same layer, micro-batch and phase reads the matrix whose rows a bias's gradient
/// sums, the first such product writes, or updates, both. Doesn't fuse if one of them is added to an earlier gradient
/// and the other isn't, or if the matrix or the bias's gradient is used otherwise between the two.
std::shared_ptr<const graph::Graph> fuse_bias_gradient(const graph::Graph& graph);

}  // namespace weft::plan
