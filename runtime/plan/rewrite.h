// Rewrites of a graph that keep every bit of its results: other messages, other lifetimes, the same sums.
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

/// In-place all-reduces of scratch tensors that stand next to one another on a channel become one of at most `bytes`:
/// their tensors become one tensor.
struct BucketAllReduces {
  std::int64_t bytes = 25 << 20;
  friend bool operator==(const BucketAllReduces&, const BucketAllReduces&) = default;
};

/// An all-reduce of more than `bytes` becomes several of at most so many: name, name#2, …
struct SplitAllReduces {
  std::int64_t bytes = 4 << 20;
  friend bool operator==(const SplitAllReduces&, const SplitAllReduces&) = default;
};

/// An all-reduce whose count the ranks divide becomes a reduce-scatter and an all-gather, which a policy can move
/// apart.
struct ReduceScatterAllGather {
  friend bool operator==(const ReduceScatterAllGather&, const ReduceScatterAllGather&) = default;
};

/// Weights of a layer, gathered in the forward pass, are dropped behind it and gathered again for the backward pass.
struct ReshardAfterForward {
  std::vector<std::int32_t> layers;  // empty: all
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

/// Activations of a layer are dropped behind the forward pass and computed again where the backward pass reads them.
struct RecomputeLayers {
  std::vector<std::int32_t> layers;  // empty: all
  friend bool operator==(const RecomputeLayers&, const RecomputeLayers&) = default;
};

/// Weights that at least `uses` products of a step read the same way round, by the CPU's packed method, are packed once
/// for all of them. Packed weights are scratch of 4 bytes an element for each way round, of 2 in bf16 that `bf16`
/// multiplies as it is.
struct PackWeights {
  std::int64_t uses = 2;
  std::optional<PackedUnit> bf16 = {};  // null: the CPU's widest
  friend bool operator==(const PackWeights&, const PackWeights&) = default;
};

/// GELU behind a product, and its gradient behind the gradient's product, become part of the product (Epilogue). The
/// CPU's bits stay; a GPU's library may round once less, so there they are the bits of another graph.
struct FuseGelu {
  friend bool operator==(const FuseGelu&, const FuseGelu&) = default;
};

using Rewrite = std::variant<BucketAllReduces, SplitAllReduces, ReduceScatterAllGather, ReshardAfterForward,
                             RecomputeLayers, PackWeights, FuseGelu>;

/// Where PackWeight puts a weight for the products that read it.
struct PackedWeight {
  std::int64_t elements = 0;
  DType dtype = DType::f32;
};

/// What pack-weights asks of the device that a graph is for, since rewrites know no kernels.
class WeightLayouts {
 public:
  virtual ~WeightLayouts() = default;
  /// Throws UserError where the device lacks what `rewrite` wants bf16 multiplied by.
  virtual void require(const PackWeights& rewrite) const = 0;
  /// Of B of a product with inputs and output of these dtypes. Null: it reads its weight as it is.
  virtual std::optional<PackedWeight> packed(const graph::Gemm& product, DType inputs, DType output,
                                             const PackWeights& rewrite) const = 0;
};

bool packs_weights(std::span<const Rewrite> rewrites);
bool fuses_gelu(std::span<const Rewrite> rewrites);

/// "bucket=26214400", "split-collective=4194304", "ar-to-rs-ag", "reshard", "recompute=0-3,7", "pack-weights=2" or,
/// with the unit for bf16, "pack-weights=2,fp32", "fuse-gelu".
std::string to_string(const Rewrite& rewrite);
/// Several, separated by ";".
std::string to_string(std::span<const Rewrite> rewrites);

/// What to_string() writes; sizes may end in KB, MB or GB (powers of 1024), and may be left out. "" has none. Layers
/// come out sorted. Throws UserError naming the nearest rewrite.
std::vector<Rewrite> parse_rewrites(std::string_view text);

/// The graph with the rewrites applied one after the other: recompute before reshard, so that what runs again reads the
/// weights that are gathered again, fuse-gelu before all others, which copy what it made, and pack-weights behind them,
/// which make products or part them. Tasks keep their names, new ones derive theirs from them. What a rewrite finds
/// nothing to do for stays as it is; runtime/plan/rewrites/rewrites.h says what each takes. `layouts` are those of the
/// device, which pack-weights needs: without them it throws std::logic_error.
std::shared_ptr<const graph::Graph> rewrite(std::shared_ptr<const graph::Graph> graph,
                                            std::span<const Rewrite> rewrites, const WeightLayouts* layouts = nullptr);

}  // namespace weft::plan
