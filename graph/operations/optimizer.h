// Norms and clipping of gradients, and the optimizer's update.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// partial = sum of x² (accumulated in double). If owned: 0 unless `replica` is 0.
struct SumSquares {
  std::int64_t n;
  bool owned = false;

  static constexpr std::string_view kind = "sum_squares";
  static constexpr KindClass kind_class = KindClass::optimizer;
  static constexpr auto fields() { return std::tuple{field("n", &SumSquares::n), field("owned", &SumSquares::owned)}; }
  constexpr auto arguments() const {
    return std::array{
        reads("x", any_shape(n), DType::f32),
        writes("partial", {1}, DType::f32),
        reads("replica", {1}, DType::i64).when(owned),
    };
  }
  constexpr Work work(double /*element_bytes*/) const { return each(n, 2, 4); }
};

/// norm = √(sum of partials); factor = min(1, max_norm/(norm + 1e-6)), or 1 if max_norm ≤ 0.
struct ClipFactor {
  std::int64_t count;
  float max_norm;

  static constexpr std::string_view kind = "clip_factor";
  static constexpr KindClass kind_class = KindClass::optimizer;
  static constexpr auto fields() {
    return std::tuple{field("count", &ClipFactor::count), field("max_norm", &ClipFactor::max_norm)};
  }
  constexpr auto arguments() const {
    return std::array{reads("partials", {count}, DType::f32), writes("norm_and_factor", {2}, DType::f32)};
  }
  constexpr Work work(double /*element_bytes*/) const { return each(count, 2, 4); }
};

/// Adam with decoupled weight decay: g = grad·factor; m and v are updated; p −= lr·(m̂/(√v̂ + eps) + weight_decay·p).
/// scalars = {lr, 1/(1−β1^t), 1/(1−β2^t), grad_scale}. A master copy holds the fp32 weights of a narrower or a shared
/// param: the update is done on the master copy, and param gets its rounded value. If unclipped, factor is 1.
struct AdamW {
  std::int64_t n;
  float beta1, beta2, eps, weight_decay;
  bool has_master = false, unclipped = false;

  static constexpr std::string_view kind = "adamw";
  static constexpr KindClass kind_class = KindClass::optimizer;
  static constexpr auto fields() {
    return std::tuple{field("n", &AdamW::n),
                      field("beta1", &AdamW::beta1),
                      field("beta2", &AdamW::beta2),
                      field("eps", &AdamW::eps),
                      field("weight_decay", &AdamW::weight_decay),
                      field("has_master", &AdamW::has_master),
                      field("unclipped", &AdamW::unclipped).told_if_set().free_of_cost()};
  }
  constexpr auto arguments() const {
    return std::array{
        updates("param", any_shape(n), kFloat).or_written_when(has_master),
        reads("grad", any_shape(n), DType::f32),
        updates("m", any_shape(n), DType::f32),
        updates("v", any_shape(n), DType::f32),
        reads("scalars", {4}, DType::f32),
        reads("norm_and_factor", {2}, DType::f32).when(!unclipped),
        updates("master", any_shape(n), DType::f32).when(has_master),
    };
  }
  constexpr Work work(double /*element_bytes*/) const { return each(n, 15, has_master ? 32.0 : 28.0); }
};

using OptimizerOperations = OperationList<SumSquares, ClipFactor, AdamW>;

}  // namespace weft::graph
