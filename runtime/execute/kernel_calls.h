// Calls of kernels with a task's arguments; the argument lists are the same on every device, so they are written once.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "graph/operation.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/norm/norm_parts.h"
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

/// The tensors of attention and of its gradient; document_starts only if the operation has them.
template <class Op>
cpu::AttentionTensors tensors_of(const NamedArguments<Op>& a) {
  const cpu::Matrix* starts = a.find("document_starts");
  return {a["q"], a["k"], a["v"], a["out"], a["log_sum_exp"], starts != nullptr ? starts->i32() : nullptr};
}

/// Calls kernels with `Where`, the first argument of the device's kernels; argument-dependent lookup finds them in its
/// namespace, so its users include their declarations. `Scalar` is how they take an integer that a step computes: by
/// value, or as a pointer where only the device can read it. A device derives from it, adds the operations whose calls
/// are its own, and hides those that it runs otherwise; without a catch-all, a new operation doesn't build without its
/// kernel.
///
///   struct Run : KernelCalls<cpu::Workers, std::int64_t> {
///     using KernelCalls::operator();
///     void operator()(const Gemm& op) const { … }
///   };
template <class Where, class Scalar>
struct KernelCalls {
  using Matrix = cpu::Matrix;

  std::span<const Matrix> slots;  // of fitted_arguments()
  Where& where;

  template <class Op>
  NamedArguments<Op> arguments_of(const Op& /*operation*/) const {
    return NamedArguments<Op>(slots);
  }
  static Scalar scalar(const Matrix& matrix) {
    if constexpr (std::is_pointer_v<Scalar>) {
      return matrix.i64();
    } else {
      return matrix.i64()[0];
    }
  }
  // 0 or null without it.
  static Scalar scalar(const Matrix* matrix) { return matrix != nullptr ? scalar(*matrix) : Scalar{}; }

  void operator()(const graph::BiasGradient& op) const {
    const auto a = arguments_of(op);
    bias_gradient(where, a["dy"], a["db"], op.accumulate);
  }
  void operator()(const graph::LayerNormForward& op) const {
    const auto a = arguments_of(op);
    layer_norm_forward(where, op.eps, a["x"], a["weight"], a["bias"], a["y"], a["mean"], a["rstd"]);
  }
  void operator()(const graph::LayerNormBackward& op) const {
    const auto a = arguments_of(op);
    layer_norm_backward(where, a["x"], a["weight"], a["mean"], a["rstd"], a["dy"],
                        {a["dx"], a["dweight"], a["dbias"], a.find("dresidual"), op.accumulate});
  }
  void operator()(const graph::RmsNormForward& op) const {
    const auto a = arguments_of(op);
    rms_norm_forward(where, op.eps, a["x"], a["weight"], a["y"], a["rstd"]);
  }
  void operator()(const graph::RmsNormBackward& op) const {
    const auto a = arguments_of(op);
    rms_norm_backward(where, a["x"], a["weight"], a["rstd"], a["dy"],
                      {a["dx"], a["dweight"], a.find("dresidual"), op.accumulate});
  }
  void operator()(const graph::HeadNormForward& op) const {
    const auto a = arguments_of(op);
    head_norm_forward(where, op.eps, op.heads, a["x"], a["weight"], a["y"], a["rstd"]);
  }
  void operator()(const graph::HeadNormBackward& op) const {
    const auto a = arguments_of(op);
    head_norm_backward(where, op.heads, a["x"], a["weight"], a["rstd"], a["dy"],
                       {a["dx"], a["dweight"], op.accumulate});
  }
  void operator()(const graph::NormStatistics& op) const {
    const auto a = arguments_of(op);
    norm_statistics(where, op.centered, a["x"], a["statistics"]);
  }
  void operator()(const graph::NormForwardOfParts& op) const {
    const auto a = arguments_of(op);
    norm_forward_of_parts(where, op.parts, op.eps, {a["x"], a["weight"], a.find("mean"), a["rstd"]}, a.find("bias"),
                          a["statistics"], a["y"]);
  }
  void operator()(const graph::NormBackwardSums& op) const {
    const auto a = arguments_of(op);
    norm_backward_sums(where, {a["x"], a["weight"], a.find("mean"), a["rstd"]}, a["dy"], a["sums"]);
  }
  void operator()(const graph::NormBackwardOfParts& op) const {
    const auto a = arguments_of(op);
    norm_backward_of_parts(where, op.parts, {a["x"], a["weight"], a.find("mean"), a["rstd"]}, a["dy"], a["sums"],
                           {a["dx"], a["dweight"], a.find("dbias"), a.find("dresidual"), op.accumulate});
  }
  void operator()(const graph::PositionBackward& op) const {
    const auto a = arguments_of(op);
    position_backward(where, a["dout"], op.seq_len, a["dwpe"], op.accumulate);
  }
  void operator()(const graph::AttentionForward& op) const {
    const auto a = arguments_of(op);
    attention_forward(where, {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window}, tensors_of(a));
  }
  void operator()(const graph::AttentionBackward& op) const {
    const auto a = arguments_of(op);
    attention_backward(where, {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window}, tensors_of(a),
                       {a["dout"], a["dq"], a["dk"], a["dv"]});
  }
  void operator()(const graph::CacheStore& op) const {
    const auto a = arguments_of(op);
    cache_store(where, op.batch, op.seq, op.context, a["x"], a["cache"]);
  }
  void operator()(const graph::AttentionDecode& op) const {
    const auto a = arguments_of(op);
    attention_decode(where, {op.batch, op.heads, op.kv_heads, op.head_dim, op.context, op.window},
                     scalar(a["position"]), {a["q"], a["k"], a["v"], a["k_cache"], a["v_cache"], a["out"]});
  }
  void operator()(const graph::GeluForward& op) const {
    const auto a = arguments_of(op);
    gelu_forward(where, a["x"], a["y"]);
  }
  void operator()(const graph::GeluBackward& op) const {
    const auto a = arguments_of(op);
    gelu_backward(where, a["x"], a["dy"], a["dx"]);
  }
  void operator()(const graph::SwiGluForward& op) const {
    const auto a = arguments_of(op);
    swiglu_forward(where, a["x"], a["y"]);
  }
  void operator()(const graph::SwiGluBackward& op) const {
    const auto a = arguments_of(op);
    swiglu_backward(where, a["x"], a["dy"], a["dx"]);
  }
  void operator()(const graph::Add& op) const {
    const auto a = arguments_of(op);
    add(where, a["a"], a["b"], a["out"]);
  }
  void operator()(const graph::Scale& op) const {
    const auto a = arguments_of(op);
    scale(where, a["x"], op.factor, a["out"]);
  }
  void operator()(const graph::Zero& op) const {
    const auto a = arguments_of(op);
    zero(where, a["out"]);
  }
  void operator()(const graph::Cast& op) const {
    const auto a = arguments_of(op);
    cast(where, a["x"], a["out"]);
  }
  void operator()(const graph::CrossEntropy& op) const {
    const auto a = arguments_of(op);
    cross_entropy(where, op.vocab, a["logits"], a["targets"], a["losses"], a.find("grad_scale"));
  }
  void operator()(const graph::VocabStatistics& op) const {
    const auto a = arguments_of(op);
    vocab_statistics(where, {scalar(a["coordinate"]), op.vocab}, a["logits"], a["targets"], a["statistics"]);
  }
  void operator()(const graph::VocabCrossEntropy& op) const {
    const auto a = arguments_of(op);
    vocab_cross_entropy(where, {scalar(a["coordinate"]), op.vocab}, op.parts, a["logits"], a["targets"],
                        a["statistics"], a["losses"], a.find("grad_scale"));
  }
  void operator()(const graph::ClipFactor& op) const {
    const auto a = arguments_of(op);
    clip_factor(where, a["partials"], op.max_norm, a["norm_and_factor"]);
  }
  void operator()(const graph::AdamW& op) const {
    const auto a = arguments_of(op);
    adamw(where, {op.beta1, op.beta2, op.eps, op.weight_decay}, {a["scalars"], a["norm_and_factor"]}, a["param"],
          a["grad"], a["m"], a["v"], a.find("master"));
  }
  void operator()(const graph::SelectRow& op) const {
    const auto a = arguments_of(op);
    select_row(where, a["x"], scalar(a["index"]), a["out"]);
  }
  void operator()(const graph::AllReduce&) const { refuse_collective(); }
  void operator()(const graph::ReduceScatter&) const { refuse_collective(); }
  void operator()(const graph::AllGather&) const { refuse_collective(); }
  void operator()(const graph::Broadcast&) const { refuse_collective(); }
  void operator()(const graph::Send&) const { refuse_collective(); }
  void operator()(const graph::Receive&) const { refuse_collective(); }
};

}  // namespace weft::execute
