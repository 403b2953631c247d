// Rewrites of a graph that keep every bit of its results on CPUs: they change messages and lifetimes, but no sums. GPUs
// round otherwise in products with an epilogue. NCCL adds an element in an order that depends on its place in the
// message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/packed_unit.h"
#include "graph/graph.h"

namespace weft::plan {

/// Joins neighbouring in-place all-reduces of scratch tensors on a channel into all-reduces of at most `bytes`, and
/// their tensors into one tensor.
struct BucketAllReduces {
  std::int64_t bytes = 25 << 20;
  friend bool operator==(const BucketAllReduces&, const BucketAllReduces&) = default;
};

/// Splits an all-reduce of more than `bytes` into pieces of at most `bytes`: name, name#2, …
struct SplitAllReduces {
  std::int64_t bytes = 4 << 20;
  friend bool operator==(const SplitAllReduces&, const SplitAllReduces&) = default;
};

/// Turns an all-reduce whose count is a multiple of its ranks into a reduce-scatter and an all-gather, which a policy
/// can move apart.
struct ReduceScatterAllGather {
  friend bool operator==(const ReduceScatterAllGather&, const ReduceScatterAllGather&) = default;
};

/// Drops a layer's gathered weights after its forward pass and gathers them again for the backward pass.
struct ReshardAfterForward {
  std::vector<std::int32_t> layers;  // empty: all
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

/// Drops a layer's activations after the forward pass and computes them again for the backward pass.
struct RecomputeLayers {
  std::vector<std::int32_t> layers;  // empty: all
  friend bool operator==(const RecomputeLayers&, const RecomputeLayers&) = default;
};

/// Packs a weight once for all products that read it, if at least `uses` products of a step read it with the same
/// transposition by the CPU's packed method. Packed weights are scratch, separate for each transposition: 4 bytes an
/// element, or 2 for bf16 that the unit `bf16` multiplies without conversion.
struct PackWeights {
  std::int64_t uses = 2;
  std::optional<PackedUnit> bf16 = {};  // null: the CPU's widest
  friend bool operator==(const PackWeights&, const PackWeights&) = default;
};

/// Makes a GELU that follows a product, or its gradient that follows the gradient's product, a part of the product
/// (Epilogue). Results on CPUs keep their bits; a GPU's library may round once less, so its results may differ.
struct FuseGelu {
  friend bool operator==(const FuseGelu&, const FuseGelu&) = default;
};

/// Lets the last product of a branch add its result to the residual stream (Epilogue::add). Results on CPUs keep their
/// bits; a GPU's library rounds once less.
struct FuseResidual {
  friend bool operator==(const FuseResidual&, const FuseResidual&) = default;
};

/// Lets a weight's gradient sum the bias's gradient too (Epilogue::bias_gradient). Results on CPUs keep their bits; a
/// GPU's library adds in another order.
struct FuseBiasGradient {
  friend bool operator==(const FuseBiasGradient&, const FuseBiasGradient&) = default;
};

using Rewrite = std::variant<BucketAllReduces, SplitAllReduces, ReduceScatterAllGather, ReshardAfterForward,
                             RecomputeLayers, PackWeights, FuseGelu, FuseResidual, FuseBiasGradient>;

/// The packed form of a weight, which PackWeight writes and products read.
struct PackedWeight {
  std::int64_t elements = 0;
  DType dtype = DType::f32;
};

/// The device's packing of weights, an interface for pack-weights, since rewrites may not include kernels.
class WeightLayouts {
 public:
  virtual ~WeightLayouts() = default;
  /// Throws UserError if the device lacks the unit by which `rewrite` multiplies bf16.
  virtual void require(const PackWeights& rewrite) const = 0;
  /// The packed form of B for a product with inputs and output of these dtypes. nullopt: the product doesn't read a
  /// packed weight.
  virtual std::optional<PackedWeight> packed(const graph::Gemm& product, DType inputs, DType output,
                                             const PackWeights& rewrite) const = 0;
};

bool packs_weights(std::span<const Rewrite> rewrites);
bool fuses_gelu(std::span<const Rewrite> rewrites);
/// Whether it makes tasks part of products.
bool is_fusion(const Rewrite& rewrite);

/// "bucket=26214400", "split-collective=4194304", "ar-to-rs-ag", "reshard", "recompute=0-3,7", "pack-weights=2" or,
/// with the unit for bf16, "pack-weights=2,fp32", "fuse-gelu", "fuse-residual", "fuse-bias-gradient".
std::string to_string(const Rewrite& rewrite);
/// A list, separated by ";".
std::string to_string(std::span<const Rewrite> rewrites);

/// Reads what to_string() writes; sizes may end in KB, MB or GB (powers of 1024), and may be left out. "" is the empty
/// list. Sorts layers. Throws UserError naming the nearest rewrite.
std::vector<Rewrite> parse_rewrites(std::string_view text);

/// The graph with the rewrites applied one after the other, in the list's order. Order matters: fusions should come
/// first, since other rewrites copy their products; recompute before reshard, so that recomputed tasks read the weights
/// that are gathered again; pack-weights last, since other rewrites add products. Tasks keep their names, and new tasks
/// have names derived from these. A rewrite that applies to nothing changes nothing; runtime/plan/rewrites/rewrites.h
/// tells where each applies; to a graph with opaque tasks none does. pack-weights needs `layouts`, those of the device,
/// and throws std::logic_error without them.
std::shared_ptr<const graph::Graph> rewrite(std::shared_ptr<const graph::Graph> graph,
                                            std::span<const Rewrite> rewrites, const WeightLayouts* layouts = nullptr);

}  // namespace weft::plan
