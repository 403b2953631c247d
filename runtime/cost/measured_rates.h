// The time of products and attention from a machine's measured points, and the smooth model between the points.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "graph/operation.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// The time of a computation's arithmetic, apart from the bytes that it moves.
struct ArithmeticTime {
  double seconds = 0;
  bool at_point = false;  // measured for exactly these sizes, so that no model is applied
};

/// A computation's arithmetic takes flops / rate seconds, where a product reaches the rate flops / (1 + gemm_half /
/// min(m, n, k)). With `processors`, a product is cut into tiles instead, which the processors compute in waves; each
/// wave takes as long as a full one. Tiles have 64 × 64 to 256 × 128 results, whichever size is fastest; a processor
/// reaches side / (side + tile_half) of its rate, where the side is that of a square tile of the same work a byte; the
/// largest tiles in full waves reach the device's rate; product_start is added. Points correct that time: at a point it
/// is the measured one; elsewhere the base time is multiplied by exp of the mean of log(measured / base) over points,
/// weighted by the inverse square of their distance. The distance is that of (log2 m, log2 n, log2 k) or of (log2
/// batch·heads, log2 seq, log2 head_dim). Points of the same dtype and layout count (for attention: dtype and
/// direction). If there are none, all points of the dtype count. If there are none of the dtype either, the machine's
/// efficiency counts. A step keeps up the share `sustained` of the rates of products that points tell; attention is
/// further from the power limit.
class MeasuredRates {
 public:
  explicit MeasuredRates(const Machine& machine);

  /// `flops`: the operation's work; `dtype`: of its first operand.
  ArithmeticTime arithmetic(const graph::Operation& operation, double flops, DType dtype) const;

 private:
  /// Where a computation is among the points.
  struct Place {
    bool product;  // or attention
    DType dtype;
    int layout;                   // of a product: its transpositions; of attention: its direction
    std::array<double, 3> sizes;  // their logarithms
  };
  struct Factor {
    Place place;
    double log_measured;  // log(measured / base)
  };

  /// nullopt: points tell nothing of such operations.
  static std::optional<Place> place_of(const graph::Operation& operation, DType dtype);
  template <class Point>
  void add(const Point& point);
  /// Seconds by the device's rate alone.
  double base(const graph::Operation& operation, double flops, DType dtype) const;
  /// How many times as long a product takes as it would at the device's rate.
  double tile_share(const graph::Gemm& gemm) const;
  ArithmeticTime corrected(const Place& at, double base) const;

  std::array<double, 2> rates_;  // operations a second in f32, in bf16
  double gemm_half_, processors_, tile_half_, product_start_, efficiency_, sustained_;
  std::vector<Factor> factors_;
};

/// The operations that points measured.
graph::Gemm operation_of(const GemmPoint& point);
graph::Operation operation_of(const AttentionPoint& point);

/// The flops a second at which a point was measured.
template <class Point>
double rate_of(const Point& point) {
  return graph::work_of(operation_of(point), static_cast<double>(size_of(point.dtype))).flops / point.seconds;
}

}  // namespace weft::cost
