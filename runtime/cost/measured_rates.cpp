#include "runtime/cost/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

namespace weft::cost {
namespace {

double log2_of(std::int64_t size) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(size, 1)));
}

/// What an operation multiplies: a product as often as it has groups, which have equal shares of the rows.
struct Products {
  graph::Gemm each;
  std::int64_t count = 1;

  /// On a device, whose tiles the groups share.
  graph::Gemm together() const {
    graph::Gemm all = each;
    all.m *= count;
    return all;
  }
};

std::optional<Products> products_of(const graph::Operation& operation) {
  const auto share = [](std::int64_t rows, std::int64_t groups) { return (rows + groups - 1) / groups; };
  if (const auto* gemm = std::get_if<graph::Gemm>(&operation)) return Products{*gemm};
  if (const auto* grouped = std::get_if<graph::GroupedGemm>(&operation)) {
    const std::int64_t groups = std::min(grouped->groups, grouped->used_rows());
    return Products{{share(grouped->used_rows(), groups), grouped->n, grouped->k, false, grouped->trans_b}, groups};
  }
  if (const auto* gradient = std::get_if<graph::GroupedGemmGradient>(&operation)) {
    const std::int64_t rows = share(gradient->used_rows(), gradient->groups);
    return Products{{gradient->m, gradient->n, rows, true}, gradient->groups};
  }
  return std::nullopt;
}

}  // namespace

graph::Gemm operation_of(const GemmPoint& point) {
  return {.m = point.m, .n = point.n, .k = point.k, .trans_a = point.trans_a, .trans_b = point.trans_b};
}

graph::Operation operation_of(const AttentionPoint& point) {
  // As many heads of keys as of queries: their number doesn't change the flops.
  if (point.backward) {
    return graph::AttentionBackward{point.batch, point.seq, point.heads, point.heads, point.head_dim};
  }
  return graph::AttentionForward{point.batch, point.seq, point.heads, point.heads, point.head_dim};
}

std::optional<MeasuredRates::Place> MeasuredRates::place_of(const graph::Operation& operation, DType dtype) {
  if (const auto products = products_of(operation)) {
    const graph::Gemm& gemm = products->each;
    const int layout = (gemm.trans_a ? 1 : 0) + (gemm.trans_b ? 2 : 0);
    return Place{true, dtype, layout, {log2_of(gemm.m), log2_of(gemm.n), log2_of(gemm.k)}};
  }
  const auto attention = [&](const graph::AttentionSize& of, int direction) {
    return Place{false, dtype, direction, {log2_of(of.batch * of.heads), log2_of(of.seq), log2_of(of.head_dim)}};
  };
  if (const auto* forward = std::get_if<graph::AttentionForward>(&operation)) return attention(*forward, 0);
  if (const auto* backward = std::get_if<graph::AttentionBackward>(&operation)) return attention(*backward, 1);
  return std::nullopt;
}

MeasuredRates::MeasuredRates(const Machine& machine)
    : rates_{machine.flops_f32, machine.flops_bf16},
      gemm_half_(machine.gemm_half),
      processors_(machine.processors),
      tile_half_(machine.tile_half),
      product_start_(machine.product_start),
      efficiency_(machine.efficiency),
      sustained_(machine.sustained) {
  for (const GemmPoint& point : machine.gemms) add(point);
  for (const AttentionPoint& point : machine.attention) {
    if (point.library.empty()) add(point);
  }
}

template <class Point>
void MeasuredRates::add(const Point& point) {
  const graph::Operation operation = operation_of(point);
  const double flops = graph::work_of(operation, static_cast<double>(size_of(point.dtype))).flops;
  factors_.push_back(
      {place_of(operation, point.dtype).value(), std::log(point.seconds / base(operation, flops, point.dtype))});
}

double MeasuredRates::base(const graph::Operation& operation, double flops, DType dtype) const {
  const double seconds = flops / rates_[dtype == DType::bf16 ? 1 : 0];
  const auto products = products_of(operation);
  if (!products) return seconds;
  if (processors_ > 0) return product_start_ + seconds * tile_share(products->together());
  const graph::Gemm& gemm = products->each;
  const std::int64_t least = std::max<std::int64_t>(1, std::min({gemm.m, gemm.n, gemm.k}));
  return seconds * (1 + gemm_half_ / static_cast<double>(least));
}

double MeasuredRates::tile_share(const graph::Gemm& gemm) const {
  struct Tile {
    double rows, columns;
  };
  constexpr std::array kTiles = {Tile{256, 128}, Tile{128, 256}, Tile{128, 128},
                                 Tile{128, 64},  Tile{64, 128},  Tile{64, 64}};
  // A tile reads rows + columns elements for rows · columns results, like a square one of this side.
  const auto reached = [&](const Tile& tile) {
    const double side = 2 * tile.rows * tile.columns / (tile.rows + tile.columns);
    return side / (side + tile_half_);
  };
  const auto m = static_cast<double>(gemm.m), n = static_cast<double>(gemm.n);
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double waves = std::ceil(std::ceil(m / tile.rows) * std::ceil(n / tile.columns) / processors_);
    const double padded = waves * processors_ * tile.rows * tile.columns / (m * n);
    least = std::min(least, padded * reached(kTiles.front()) / reached(tile));
  }
  return least;
}

ArithmeticTime MeasuredRates::corrected(const Place& at, double base) const {
  const double sustained = at.product ? sustained_ : 1;
  double weights = 0, sum = 0;              // of points with this layout
  double other_weights = 0, other_sum = 0;  // of all points with this dtype
  for (const auto& [place, log_measured] : factors_) {
    if (place.product != at.product || place.dtype != at.dtype) continue;
    double squared = 0;
    for (std::size_t i = 0; i < at.sizes.size(); ++i) {
      squared += (place.sizes[i] - at.sizes[i]) * (place.sizes[i] - at.sizes[i]);
    }
    if (squared == 0 && place.layout == at.layout) return {base * std::exp(log_measured) / sustained, true};
    // A point of the same sizes in another layout outweighs all others.
    const double weight = 1 / std::max(squared, 1e-12);
    other_weights += weight;
    other_sum += weight * log_measured;
    if (place.layout != at.layout) continue;
    weights += weight;
    sum += weight * log_measured;
  }
  if (weights > 0) return {base * std::exp(sum / weights) / sustained};
  if (other_weights > 0) return {base * std::exp(other_sum / other_weights) / sustained};
  return {base / efficiency_};
}

ArithmeticTime MeasuredRates::arithmetic(const graph::Operation& operation, double flops, DType dtype) const {
  const double seconds = base(operation, flops, dtype);
  const std::optional<Place> place = place_of(operation, dtype);
  return place ? corrected(*place, seconds) : ArithmeticTime{seconds / efficiency_};
}

}  // namespace weft::cost
