// Which of a task's arguments its kernel takes where: the same on every device, so that an operation's order of
// arguments is spelled out once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "graph/operation.h"
#include "kernels/cpu/gemm/matrix.h"
#include "kernels/cpu/norm/norm_parts.h"
#include "runtime/execute/task_arguments.h"

namespace weft {

/// Calls kernels on `Where`, what the device's kernels take first; argument-dependent lookup finds them in its
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

  std::span<const Matrix> arguments;
  Where& where;

  const Matrix& at(std::size_t index) const { return arguments[index]; }
  static Scalar scalar_of(const Matrix& matrix) {
    if constexpr (std::is_pointer_v<Scalar>) {
      return matrix.i64();
    } else {
      return matrix.i64()[0];
    }
  }
  Scalar scalar(std::size_t index) const { return scalar_of(at(index)); }
  // An argument that comes last if it comes at all; 0 or null without it.
  const Matrix* last_if(bool present) const { return present ? &arguments.back() : nullptr; }
  Scalar last_scalar_if(bool present) const { return present ? scalar_of(arguments.back()) : Scalar{}; }

  void operator()(const BiasGradient& op) const { bias_gradient(where, at(0), at(1), op.accumulate); }
  void operator()(const LayerNormForward& op) const {
    layer_norm_forward(where, op.eps, at(0), at(1), at(2), at(3), at(4), at(5));
  }
  void operator()(const LayerNormBackward& op) const {
    layer_norm_backward(where, at(0), at(1), at(2), at(3), at(4),
                        {at(5), at(6), at(7), last_if(op.residual), op.accumulate});
  }
  void operator()(const RmsNormForward& op) const { rms_norm_forward(where, op.eps, at(0), at(1), at(2), at(3)); }
  void operator()(const RmsNormBackward& op) const {
    rms_norm_backward(where, at(0), at(1), at(2), at(3), {at(4), at(5), last_if(op.residual), op.accumulate});
  }
  void operator()(const NormStatistics& op) const { norm_statistics(where, op.centered, at(0), at(1)); }
  void operator()(const NormForwardOfParts& op) const {
    if (op.centered) {
      norm_forward_of_parts(where, op.parts, op.eps, {at(0), at(1), &at(5), at(6)}, &at(2), at(3), at(4));
    } else {
      norm_forward_of_parts(where, op.parts, op.eps, {at(0), at(1), nullptr, at(4)}, nullptr, at(2), at(3));
    }
  }
  void operator()(const NormBackwardSums& op) const {
    const auto [norm, next] = saved_norm(op.centered);
    norm_backward_sums(where, norm, at(next), at(next + 1));
  }
  void operator()(const NormBackwardOfParts& op) const {
    const auto [norm, next] = saved_norm(op.centered);
    const Matrix* dbias = op.centered ? &at(next + 4) : nullptr;
    norm_backward_of_parts(where, op.parts, norm, at(next), at(next + 1),
                           {at(next + 2), at(next + 3), dbias, last_if(op.residual), op.accumulate});
  }
  void operator()(const PositionBackward& op) const {
    position_backward(where, at(0), op.seq_len, at(1), op.accumulate);
  }
  void operator()(const AttentionForward& op) const {
    attention_forward(where, {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim},
                      {at(0), at(1), at(2), at(3), at(4)});
  }
  void operator()(const AttentionBackward& op) const {
    attention_backward(where, {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim},
                       {at(0), at(1), at(2), at(3), at(4)}, {at(5), at(6), at(7), at(8)});
  }
  void operator()(const CacheStore& op) const { cache_store(where, op.batch, op.seq, op.context, at(0), at(1)); }
  void operator()(const AttentionDecode& op) const {
    attention_decode(where, {op.batch, op.heads, op.kv_heads, op.head_dim, op.context}, scalar(5),
                     {at(0), at(1), at(2), at(3), at(4), at(6)});
  }
  void operator()(const GeluForward&) const { gelu_forward(where, at(0), at(1)); }
  void operator()(const GeluBackward&) const { gelu_backward(where, at(0), at(1), at(2)); }
  void operator()(const SwiGluForward&) const { swiglu_forward(where, at(0), at(1)); }
  void operator()(const SwiGluBackward&) const { swiglu_backward(where, at(0), at(1), at(2)); }
  void operator()(const Add&) const { add(where, at(0), at(1), at(2)); }
  void operator()(const Cast&) const { cast(where, at(0), at(1)); }
  void operator()(const CrossEntropy& op) const {
    cross_entropy(where, op.vocab, at(0), at(1), at(2), last_if(op.gradient));
  }
  void operator()(const VocabStatistics& op) const {
    vocab_statistics(where, {scalar(2), op.vocab}, at(0), at(1), at(3));
  }
  void operator()(const VocabCrossEntropy& op) const {
    vocab_cross_entropy(where, {scalar(2), op.vocab}, op.parts, at(0), at(1), at(3), at(4), last_if(op.gradient));
  }
  void operator()(const ClipFactor& op) const { clip_factor(where, at(0), op.max_norm, at(1)); }
  void operator()(const AdamW& op) const {
    adamw(where, {op.beta1, op.beta2, op.eps, op.weight_decay}, {at(4), at(5)}, at(0), at(1), at(2), at(3),
          last_if(op.has_master));
  }
  void operator()(const SelectRow&) const { select_row(where, at(0), scalar(1), at(2)); }
  void operator()(const AllReduce&) const { refuse_collective(); }
  void operator()(const ReduceScatter&) const { refuse_collective(); }
  void operator()(const AllGather&) const { refuse_collective(); }
  void operator()(const Broadcast&) const { refuse_collective(); }

 private:
  // Of an operation whose arguments begin with x, weight, mean if centered, rstd: these and how many they are.
  std::pair<cpu::NormPartTensors, std::size_t> saved_norm(bool centered) const {
    return {{at(0), at(1), centered ? &at(2) : nullptr, at(centered ? 3 : 2)},
            centered ? std::size_t{4} : std::size_t{3}};
  }
};

}  // namespace weft
