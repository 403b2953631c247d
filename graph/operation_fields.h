// The fields of every operation by name, for fingerprints, dumps and tooltips: one list instead of one a use.
#pragma once

#include <variant>

#include "graph/operation.h"

namespace weft {

namespace detail {

template <class F>
struct FieldVisitor {
  F& f;
  void operator()(const Gemm& o) const {
    f("m", o.m), f("n", o.n), f("k", o.k), f("trans_a", o.trans_a), f("trans_b", o.trans_b);
    f("accumulate", o.accumulate), f("has_bias", o.has_bias);
    // Where it is so only: graphs without packed weights and epilogues keep the fingerprints that plan files have.
    if (o.packed_b) f("packed_b", o.packed_b);
    if (o.epilogue != Epilogue::none) f("epilogue", o.epilogue);
  }
  void operator()(const PackWeight& o) const { f("n", o.n), f("k", o.k), f("trans_b", o.trans_b); }
  void operator()(const BiasGradient& o) const { f("rows", o.rows), f("cols", o.cols), f("accumulate", o.accumulate); }
  void operator()(const AddBias& o) const { f("rows", o.rows), f("cols", o.cols); }
  void operator()(const LayerNormForward& o) const { f("rows", o.rows), f("cols", o.cols), f("eps", o.eps); }
  void operator()(const LayerNormBackward& o) const { norm_backward(o); }
  void operator()(const RmsNormForward& o) const { f("rows", o.rows), f("cols", o.cols), f("eps", o.eps); }
  void operator()(const RmsNormBackward& o) const { norm_backward(o); }
  void operator()(const NormStatistics& o) const { f("rows", o.rows), f("cols", o.cols), f("centered", o.centered); }
  void operator()(const NormForwardOfParts& o) const {
    f("rows", o.rows), f("cols", o.cols), f("parts", o.parts), f("eps", o.eps), f("centered", o.centered);
  }
  void operator()(const NormBackwardSums& o) const { f("rows", o.rows), f("cols", o.cols), f("centered", o.centered); }
  void operator()(const NormBackwardOfParts& o) const {
    norm_backward(o), f("parts", o.parts), f("centered", o.centered);
  }
  void operator()(const TakeColumns& o) const { windows(o); }
  void operator()(const PutColumns& o) const { windows(o); }
  void operator()(const EmbeddingForward& o) const {
    f("rows", o.rows), f("cols", o.cols), f("vocab", o.vocab), f("seq_len", o.seq_len);
    f("positions", o.positions), f("has_offset", o.has_offset), f("sharded", o.sharded);
  }
  void operator()(const EmbeddingBackward& o) const {
    f("rows", o.rows), f("cols", o.cols), f("vocab", o.vocab), f("accumulate", o.accumulate);
    f("sharded", o.sharded);
  }
  void operator()(const PositionBackward& o) const {
    f("rows", o.rows), f("cols", o.cols), f("seq_len", o.seq_len), f("context", o.context);
    f("accumulate", o.accumulate);
  }
  void operator()(const Rope& o) const {
    f("rows", o.rows), f("heads", o.heads), f("head_dim", o.head_dim), f("seq_len", o.seq_len), f("theta", o.theta);
    f("scaling_factor", o.scaling_factor), f("low_freq_factor", o.low_freq_factor);
    f("high_freq_factor", o.high_freq_factor), f("original_context", o.original_context);
    f("inverse", o.inverse), f("has_offset", o.has_offset);
  }
  void operator()(const AttentionForward& o) const { attention(o); }
  void operator()(const AttentionBackward& o) const { attention(o); }
  void operator()(const CacheStore& o) const {
    f("batch", o.batch), f("seq", o.seq), f("cols", o.cols), f("context", o.context);
  }
  void operator()(const AttentionDecode& o) const {
    f("batch", o.batch), f("heads", o.heads), f("kv_heads", o.kv_heads), f("head_dim", o.head_dim);
    f("context", o.context);
  }
  void operator()(const GeluForward& o) const { f("n", o.n); }
  void operator()(const GeluBackward& o) const { f("n", o.n); }
  void operator()(const SwiGluForward& o) const { f("rows", o.rows), f("cols", o.cols); }
  void operator()(const SwiGluBackward& o) const { f("rows", o.rows), f("cols", o.cols); }
  void operator()(const Add& o) const { f("n", o.n); }
  void operator()(const Dropout& o) const {
    f("rows", o.rows), f("cols", o.cols), f("row_offset", o.row_offset), f("p", o.p), f("site", o.site);
    f("residual", o.residual), f("parts", o.parts);
  }
  void operator()(const Cast& o) const { f("n", o.n); }
  void operator()(const CrossEntropy& o) const {
    f("rows", o.rows), f("vocab", o.vocab), f("padded", o.padded), f("gradient", o.gradient);
  }
  void operator()(const VocabStatistics& o) const { f("rows", o.rows), f("cols", o.cols), f("vocab", o.vocab); }
  void operator()(const VocabCrossEntropy& o) const {
    f("rows", o.rows), f("cols", o.cols), f("vocab", o.vocab), f("parts", o.parts), f("gradient", o.gradient);
  }
  void operator()(const LossSum& o) const { f("rows", o.rows), f("accumulate", o.accumulate), f("owned", o.owned); }
  void operator()(const SumSquares& o) const { f("n", o.n), f("owned", o.owned); }
  void operator()(const ClipFactor& o) const { f("count", o.count), f("max_norm", o.max_norm); }
  void operator()(const AdamW& o) const {
    f("n", o.n), f("beta1", o.beta1), f("beta2", o.beta2), f("eps", o.eps), f("weight_decay", o.weight_decay);
    f("has_master", o.has_master);
  }
  void operator()(const SelectRow& o) const { f("rows", o.rows), f("cols", o.cols); }
  void operator()(const AllReduce& o) const { collective(o); }
  void operator()(const ReduceScatter& o) const { collective(o); }
  void operator()(const AllGather& o) const { collective(o); }
  void operator()(const Broadcast& o) const { collective(o), f("root", o.root); }

  void norm_backward(const auto& o) const {
    f("rows", o.rows), f("cols", o.cols), f("residual", o.residual), f("accumulate", o.accumulate);
  }
  void windows(const auto& o) const {
    f("rows", o.rows), f("cols", o.cols), f("windows", o.windows), f("ranks_per_window", o.ranks_per_window);
  }
  void attention(const auto& o) const {
    f("batch", o.batch), f("seq", o.seq), f("heads", o.heads), f("kv_heads", o.kv_heads), f("head_dim", o.head_dim);
  }
  void collective(const auto& o) const { f("channel", o.channel), f("ranks", o.ranks), f("count", o.count); }
};

}  // namespace detail

/// Calls f(name, value) for each field. Values are integers, floats, bools, a Channel or an Epilogue.
template <class F>
void for_each_field(const Operation& operation, F&& f) {
  std::visit(detail::FieldVisitor<F>{f}, operation);
}

}  // namespace weft
