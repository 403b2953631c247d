#include "ops/query_key_norms.h"

#include <fmt/format.h>

#include <string>

#include "ops/collectives.h"
#include "ops/layers.h"
#include "ops/lower.h"

namespace weft::ops {
namespace {

// One of the two norms on this rank.
struct NormOfHeads {
  const char* name;
  std::int64_t rows, heads, sharers;  // sharers: ranks of x that have the same head
  graph::View x;

  std::int64_t cols() const { return x.cols; }
};

std::array<NormOfHeads, 2> norms_of(const Lowering& low, const Heads& in, std::int64_t rows) {
  const LocalHeads local = local_heads(low.model(), low.grid());
  return {NormOfHeads{"q_norm", rows, local.heads, 1, in.q},
          NormOfHeads{"k_norm", rows, local.kv_heads, local.ranks_per_kv_head, in.k}};
}

// Ranks that hold parts of a row.
std::int64_t parts_of_row(const Lowering& low) {
  return low.grid().x * low.grid().y;
}

graph::TensorId per_row(Lowering& low, const std::string& name, std::int64_t count) {
  return low.scratch(name, DType::f32, {count}, graph::Role::activation);
}

bool by_heads(const Lowering& low) {
  return low.model().query_key_norm() == QueryKeyNorm::heads;
}

// The weights of the rank's columns. Every rank has all of them.
graph::TensorId own_columns(Lowering& low, const NormOfHeads& norm, graph::TensorId weight) {
  if (by_heads(low) || parts_of_row(low) == 1) return weight;
  const graph::TensorId own = low.activation(fmt::format("{}.weight", norm.name), 1, norm.cols());
  low.emit(fmt::format("take_{}", norm.name),
           graph::TakeColumns{1, norm.cols(), parts_of_row(low) / norm.sharers, norm.sharers},
           {{"x", low.read(weight)}, {"coordinate", coordinate(low, CoordinateIndex::xy)}, {"out", low.write(own)}});
  return own;
}

SavedNorm forward(Lowering& low, const NormOfHeads& norm, const graph::View& y, std::int64_t layer) {
  SavedNorm saved;
  saved.weight = &low.parameter(fmt::format("L{}.attn.{}.weight", layer, norm.name));
  saved.used_weight = own_columns(low, norm, used_weight(low, *saved.weight, norm.name));
  const std::string rstd = fmt::format("{}.rstd", norm.name);
  const float eps = low.model().norm_eps;
  if (by_heads(low)) {
    saved.rstd = per_row(low, rstd, norm.rows * norm.heads);
    low.emit(norm.name, graph::HeadNormForward{norm.rows, norm.heads, low.model().head_dim(), eps},
             {{"x", graph::read(norm.x)},
              {"weight", low.read(saved.used_weight)},
              {"y", graph::write(y)},
              {"rstd", low.write(saved.rstd)}});
    return saved;
  }
  saved.rstd = per_row(low, rstd, norm.rows);
  if (parts_of_row(low) == 1) {
    low.emit(norm.name, graph::RmsNormForward{norm.rows, norm.cols(), eps},
             {{"x", graph::read(norm.x)},
              {"weight", low.read(saved.used_weight)},
              {"bias", std::nullopt},
              {"y", graph::write(y)},
              {"mean", std::nullopt},
              {"rstd", low.write(saved.rstd)}});
    return saved;
  }
  const std::string name = norm.name;
  graph::TensorId statistics = per_row(low, name + ".statistics", norm.rows);
  low.emit(name + "_statistics", graph::NormStatistics{norm.rows, norm.cols(), false},
           {{"x", graph::read(norm.x)}, {"statistics", low.write(statistics)}});
  statistics = all_gather(low, name + "_all_gather_x", statistics, graph::Channel::x);
  statistics = all_gather(low, name + "_all_gather_y", statistics, graph::Channel::y);
  low.emit(name, graph::NormForwardOfParts{norm.rows, norm.cols(), parts_of_row(low), eps, false},
           {{"x", graph::read(norm.x)},
            {"weight", low.read(saved.used_weight)},
            {"bias", std::nullopt},
            {"statistics", low.read(statistics)},
            {"y", graph::write(y)},
            {"mean", std::nullopt},
            {"rstd", low.write(saved.rstd)}});
  return saved;
}

// The gradient of the rank's columns, which becomes a part of the whole weight's.
void add_weight_gradient(Lowering& low, const NormOfHeads& norm, Parameter& weight, graph::TensorId own) {
  const auto dw = low.gradient_slot(weight);
  low.emit(fmt::format("put_{}", norm.name),
           graph::PutColumns{{1, norm.cols(), parts_of_row(low) / norm.sharers, norm.sharers}, dw.accumulate},
           {{"x", low.read(own)}, {"coordinate", coordinate(low, CoordinateIndex::xy)}, {"out", low.result(dw)}});
}

void backward(Lowering& low, const NormOfHeads& norm, const SavedNorm& saved, const graph::View& dy,
              const graph::View& dx) {
  const std::string name = fmt::format("{}_dx", norm.name);
  const graph::Access x = graph::read(norm.x), weight = low.read(saved.used_weight), rstd = low.read(saved.rstd);
  if (by_heads(low)) {
    const auto dw = low.gradient_slot(*saved.weight);
    low.emit(name, graph::HeadNormBackward{norm.rows, norm.heads, low.model().head_dim(), dw.accumulate},
             {{"x", x},
              {"weight", weight},
              {"rstd", rstd},
              {"dy", graph::read(dy)},
              {"dx", graph::write(dx)},
              {"dweight", low.result(dw)}});
    return;
  }
  if (parts_of_row(low) == 1) {
    const auto dw = low.gradient_slot(*saved.weight);
    low.emit(name, graph::RmsNormBackward{norm.rows, norm.cols(), false, dw.accumulate},
             {{"x", x},
              {"weight", weight},
              {"mean", std::nullopt},
              {"rstd", rstd},
              {"dy", graph::read(dy)},
              {"dx", graph::write(dx)},
              {"dweight", low.result(dw)},
              {"dbias", std::nullopt},
              {"dresidual", std::nullopt}});
    return;
  }
  const graph::TensorId sums = per_row(low, name + ".sums", norm.rows);
  low.emit(name + "_sums", graph::NormBackwardSums{{norm.rows, norm.cols(), false}},
           {{"x", x},
            {"weight", weight},
            {"mean", std::nullopt},
            {"rstd", rstd},
            {"dy", graph::read(dy)},
            {"sums", low.write(sums)}});
  all_reduce(low, name + "_all_reduce_x", sums, norm.rows, graph::Channel::x);
  all_reduce(low, name + "_all_reduce_y", sums, norm.rows, graph::Channel::y);
  const graph::TensorId own = per_row(low, name + ".weight", norm.cols());
  low.emit(name, graph::NormBackwardOfParts{norm.rows, norm.cols(), parts_of_row(low), false},
           {{"x", x},
            {"weight", weight},
            {"mean", std::nullopt},
            {"rstd", rstd},
            {"dy", graph::read(dy)},
            {"sums", low.read(sums)},
            {"dx", graph::write(dx)},
            {"dweight", low.write(own)},
            {"dbias", std::nullopt},
            {"dresidual", std::nullopt}});
  add_weight_gradient(low, norm, *saved.weight, own);
}

}  // namespace

Heads beside(Lowering& low, std::string_view name, const Heads& heads, std::int64_t rows) {
  const graph::TensorId both = low.activation(name, rows, heads.q.cols + heads.k.cols);
  return {low.columns(both, 0, heads.q.cols), low.columns(both, heads.q.cols, heads.k.cols), heads.v};
}

QueryKeyNorms normalize(Lowering& low, const Heads& in, std::int64_t rows, std::int64_t layer) {
  QueryKeyNorms norms;
  norms.normed = beside(low, "qk", in, rows);
  const auto [q, k] = norms_of(low, in, rows);
  norms.q = forward(low, q, norms.normed.q, layer);
  norms.k = forward(low, k, norms.normed.k, layer);
  return norms;
}

void differentiate(Lowering& low, const QueryKeyNorms& norms, const Heads& in, const Heads& dnormed, const Heads& grad,
                   std::int64_t rows) {
  const auto [q, k] = norms_of(low, in, rows);
  backward(low, q, norms.q, dnormed.q, grad.q);
  backward(low, k, norms.k, dnormed.k, grad.k);
}

}  // namespace weft::ops
