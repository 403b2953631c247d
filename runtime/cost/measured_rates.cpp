#include "runtime/cost/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace weft::cost {
namespace {

double log2_of(std::int64_t size) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(size, 1)));
}

double element_bytes(DType dtype) {
  return static_cast<double>(size_of(dtype));
}

int layout_of(const graph::Gemm& gemm) {
  return (gemm.trans_a ? 1 : 0) + (gemm.trans_b ? 2 : 0);
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

double rate_of(const GemmPoint& point) {
  return operation_of(point).work(element_bytes(point.dtype)).flops / point.seconds;
}

double rate_of(const AttentionPoint& point) {
  return graph::work_of(operation_of(point), element_bytes(point.dtype)).flops / point.seconds;
}

MeasuredRates::Query MeasuredRates::query_of(const graph::Gemm& gemm, DType dtype) {
  return {{log2_of(gemm.m), log2_of(gemm.n), log2_of(gemm.k)}, dtype, layout_of(gemm)};
}

MeasuredRates::Query MeasuredRates::query_of(const graph::AttentionForward& sizes, bool backward, DType dtype) {
  return {{log2_of(sizes.batch * sizes.heads), log2_of(sizes.seq), log2_of(sizes.head_dim)}, dtype, backward ? 1 : 0};
}

MeasuredRates::MeasuredRates(const Machine& machine)
    : rates_{machine.flops_f32, machine.flops_bf16}, gemm_half_(machine.gemm_half), efficiency_(machine.efficiency) {
  for (const GemmPoint& point : machine.gemms) {
    const graph::Gemm gemm = operation_of(point);
    const double flops = gemm.work(element_bytes(point.dtype)).flops;
    const Query at = query_of(gemm, point.dtype);
    gemms_.push_back({at.place, at.dtype, at.layout, std::log(point.seconds / base(gemm, flops, point.dtype))});
  }
  for (const AttentionPoint& point : machine.attention) {
    const graph::Operation operation = operation_of(point);
    const double flops = graph::work_of(operation, element_bytes(point.dtype)).flops;
    const Query at =
        query_of({point.batch, point.seq, point.heads, point.heads, point.head_dim}, point.backward, point.dtype);
    attention_.push_back(
        {at.place, at.dtype, at.layout, std::log(point.seconds / base(operation, flops, point.dtype))});
  }
}

double MeasuredRates::base(const graph::Operation& operation, double flops, DType dtype) const {
  const double seconds = flops / rates_[dtype == DType::bf16 ? 1 : 0];
  const graph::Gemm* gemm = std::get_if<graph::Gemm>(&operation);
  if (gemm == nullptr) return seconds;
  const std::int64_t least = std::max<std::int64_t>(1, std::min({gemm->m, gemm->n, gemm->k}));
  return seconds * (1 + gemm_half_ / static_cast<double>(least));
}

ArithmeticTime MeasuredRates::corrected(const std::vector<Factor>& factors, const Query& query, double base) const {
  double weights = 0, sum = 0;              // of points with this layout
  double other_weights = 0, other_sum = 0;  // of all points with this dtype
  for (const Factor& factor : factors) {
    if (factor.dtype != query.dtype) continue;
    double squared = 0;
    for (std::size_t i = 0; i < query.place.size(); ++i) {
      squared += (factor.place[i] - query.place[i]) * (factor.place[i] - query.place[i]);
    }
    if (squared == 0 && factor.layout == query.layout) return {base * std::exp(factor.log_measured), true};
    // A point of the same sizes in another layout outweighs all others.
    const double weight = 1 / std::max(squared, 1e-12);
    other_weights += weight;
    other_sum += weight * factor.log_measured;
    if (factor.layout != query.layout) continue;
    weights += weight;
    sum += weight * factor.log_measured;
  }
  if (weights > 0) return {base * std::exp(sum / weights)};
  if (other_weights > 0) return {base * std::exp(other_sum / other_weights)};
  return {base / efficiency_};
}

ArithmeticTime MeasuredRates::arithmetic(const graph::Operation& operation, double flops, DType dtype) const {
  const double seconds = base(operation, flops, dtype);
  if (const auto* gemm = std::get_if<graph::Gemm>(&operation))
    return corrected(gemms_, query_of(*gemm, dtype), seconds);
  const auto attention = [&](const auto& op, bool backward) {
    const graph::AttentionForward sizes{op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window};
    return corrected(attention_, query_of(sizes, backward, dtype), seconds);
  };
  if (const auto* forward = std::get_if<graph::AttentionForward>(&operation)) return attention(*forward, false);
  if (const auto* backward = std::get_if<graph::AttentionBackward>(&operation)) return attention(*backward, true);
  return {seconds / efficiency_};
}

}  // namespace weft::cost
