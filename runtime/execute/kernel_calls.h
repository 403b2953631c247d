// Calls of kernels with a task's arguments; the argument lists are the same on every device, so they are written once.
#pragma once

#include <type_traits>

#include "graph/operation.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/norm/norm.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {

/// The scaling of a rotary embedding, for rope_frequencies().
inline cpu::RopeScaling scaling_of(const graph::Rope& op) {
  using Kind = cpu::RopeScaling::Kind;
  Kind kind = Kind::llama3;
  if (op.scaling == graph::RopeKind::linear) kind = Kind::linear;
  if (op.scaling == graph::RopeKind::yarn) kind = Kind::yarn;
  return {op.scaling_factor, op.low_freq_factor, op.high_freq_factor, op.original_context, kind, op.fractional};
}

/// The factor of its results.
inline float factor_of(const graph::Rope& op) {
  return op.attention_factor != 0.0F ? op.attention_factor : 1.0F;
}

inline cpu::AttentionShape shape_of(const auto& op) {
  return {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window, op.scale};
}
inline cpu::DecodeShape shape_of(const graph::AttentionDecode& op) {
  return {op.batch, op.heads, op.kv_heads, op.head_dim, op.context, op.window, op.scale};
}

/// The tensors of attention and of its gradient; document_starts only if the operation has them.
template <class Op>
cpu::AttentionTensors tensors_of(const Call<Op>& c) {
  const cpu::Matrix* starts = c.find("document_starts");
  return {c["q"], c["k"], c["v"], c["out"], c["log_sum_exp"], starts != nullptr ? starts->i32() : nullptr};
}

/// Calls kernels with `Where`, the first argument of the device's kernels; argument-dependent lookup finds them in its
/// namespace, so its users include their declarations. `Scalar` is how they take an integer that a step computes: by
/// value, or as a pointer where only the device can read it. A device derives from it, adds the operations whose calls
/// are its own, and hides those that it runs otherwise; without a catch-all, a new operation doesn't build without its
/// kernel.
///
///   struct Run : KernelCalls<cpu::Workers, std::int64_t> {
///     using KernelCalls::operator();
///     void operator()(Call<Gemm> c) const { … }
///   };
///   Run{workers}(Call(operation, slots));
template <class Where, class Scalar>
struct KernelCalls {
  using Matrix = cpu::Matrix;

  Where& where;

  static Scalar scalar(const Matrix& matrix) {
    if constexpr (std::is_pointer_v<Scalar>) {
      return matrix.i64();
    } else {
      return matrix.i64()[0];
    }
  }
  // 0 or null without it.
  static Scalar scalar(const Matrix* matrix) { return matrix != nullptr ? scalar(*matrix) : Scalar{}; }

  void operator()(Call<graph::BiasGradient> c) const { bias_gradient(where, c["dy"], c["db"], c->accumulate); }
  template <bool kCentered>
  void operator()(Call<graph::NormForward<kCentered>> c) const {
    norm_forward(where, c->eps, {c["x"], c["weight"], c.find("mean"), c["rstd"]}, c.find("bias"), c["y"]);
  }
  template <bool kCentered>
  void operator()(Call<graph::NormBackward<kCentered>> c) const {
    norm_backward(where, {c["x"], c["weight"], c.find("mean"), c["rstd"]}, c["dy"],
                  {c["dx"], c["dweight"], c.find("dbias"), c.find("dresidual"), c->accumulate});
  }
  void operator()(Call<graph::HeadNormForward> c) const {
    head_norm_forward(where, c->eps, c->heads, c["x"], c["weight"], c["y"], c["rstd"]);
  }
  void operator()(Call<graph::HeadNormBackward> c) const {
    head_norm_backward(where, c->heads, c["x"], c["weight"], c["rstd"], c["dy"],
                       {c["dx"], c["dweight"], c->accumulate});
  }
  void operator()(Call<graph::NormStatistics> c) const { norm_statistics(where, c->centered, c["x"], c["statistics"]); }
  void operator()(Call<graph::NormForwardOfParts> c) const {
    norm_forward_of_parts(where, c->parts, c->eps, {c["x"], c["weight"], c.find("mean"), c["rstd"]}, c.find("bias"),
                          c["statistics"], c["y"]);
  }
  void operator()(Call<graph::NormBackwardSums> c) const {
    norm_backward_sums(where, {c["x"], c["weight"], c.find("mean"), c["rstd"]}, c["dy"], c["sums"]);
  }
  void operator()(Call<graph::NormBackwardOfParts> c) const {
    norm_backward_of_parts(where, c->parts, {c["x"], c["weight"], c.find("mean"), c["rstd"]}, c["dy"], c["sums"],
                           {c["dx"], c["dweight"], c.find("dbias"), c.find("dresidual"), c->accumulate});
  }
  void operator()(Call<graph::AttentionForward> c) const { attention_forward(where, shape_of(*c), tensors_of(c)); }
  void operator()(Call<graph::AttentionBackward> c) const {
    attention_backward(where, shape_of(*c), tensors_of(c), {c["dout"], c["dq"], c["dk"], c["dv"]});
  }
  void operator()(Call<graph::Route> c) const {
    route(where, {c->normalise, c->given}, c["logits"], c["chosen"], c["weights"]);
  }
  void operator()(Call<graph::RouteBackward> c) const {
    route_backward(where, c->normalise, c["logits"], c["chosen"], c["dweights"], c["dlogits"]);
  }
  void operator()(Call<graph::SortByExpert> c) const {
    sort_by_expert(where, c["chosen"], c["slots"], c["sources"], c["offsets"]);
  }
  void operator()(Call<graph::OffsetsOfRank> c) const {
    offsets_of_rank(where, c["table"], scalar(c["coordinate"]), c["offsets"]);
  }
  void operator()(Call<graph::CountChoices> c) const {
    count_choices(where, c["logits"], c["chosen"], c["offsets"], {c["counts"], c["margin"], c["flips"]});
  }
  void operator()(Call<graph::GatherRows> c) const { gather_rows(where, c["x"], c["sources"], c["out"]); }
  void operator()(Call<graph::CombineRows> c) const {
    combine_rows(where, c["y"], c["slots"], c.find("weights"), c["out"]);
  }
  void operator()(Call<graph::CombineRowsBackward> c) const {
    combine_rows_backward(where, {c["y"], c["slots"], c["weights"]}, c["dout"], c["dy"], c["dweights"]);
  }
  void operator()(Call<graph::CacheStore> c) const {
    cache_store(where, c->batch, c->seq, c->context, c["x"], c["cache"]);
  }
  void operator()(Call<graph::AttentionDecode> c) const {
    attention_decode(where, shape_of(*c), scalar(c["position"]),
                     {c["q"], c["k"], c["v"], c["k_cache"], c["v_cache"], c["out"]});
  }
  void operator()(Call<graph::GeluForward> c) const { gelu_forward(where, c["x"], c["y"]); }
  void operator()(Call<graph::GeluBackward> c) const { gelu_backward(where, c["x"], c["dy"], c["dx"]); }
  void operator()(Call<graph::AddConstant> c) const { add_constant(where, c["x"], c->value, c["out"]); }
  void operator()(Call<graph::Add> c) const { add(where, c["a"], c["b"], c["out"]); }
  void operator()(Call<graph::Scale> c) const { scale(where, c["x"], c->factor, c["out"]); }
  void operator()(Call<graph::Zero> c) const { zero(where, c["out"]); }
  void operator()(Call<graph::Cast> c) const { cast(where, c["x"], c["out"]); }
  void operator()(Call<graph::CrossEntropy> c) const {
    cross_entropy(where, c->vocab, c["logits"], c["targets"], c["losses"], c.find("grad_scale"));
  }
  void operator()(Call<graph::VocabStatistics> c) const {
    vocab_statistics(where, {scalar(c["coordinate"]), c->vocab}, c["logits"], c["targets"], c["statistics"]);
  }
  void operator()(Call<graph::VocabCrossEntropy> c) const {
    vocab_cross_entropy(where, {scalar(c["coordinate"]), c->vocab}, c->parts, c["logits"], c["targets"],
                        c["statistics"], c["losses"], c.find("grad_scale"));
  }
  void operator()(Call<graph::ClipFactor> c) const {
    clip_factor(where, c["partials"], c->max_norm, c["norm_and_factor"]);
  }
  void operator()(Call<graph::AdamW> c) const {
    adamw(where, {c->beta1, c->beta2, c->eps, c->weight_decay}, {c["scalars"], c.find("norm_and_factor")}, c["param"],
          c["grad"], c["m"], c["v"], c.find("master"));
  }
  void operator()(Call<graph::SelectRow> c) const { select_row(where, c["x"], scalar(c["index"]), c["out"]); }
  template <class Op>
  requires requires(const Op& op) { op.channel; }
  void operator()(Call<Op> /*call*/) const { refuse_collective(); }
};

}  // namespace weft::execute
