#include "graph/operation.h"

#include "base/overloaded.h"

namespace weft {
namespace {

constexpr double kPackedElement = 4;  // bytes, where packed weights are fp32; in pairs it is half
constexpr double kGeluFlops = 12, kGeluGradientFlops = 20;

// What the epilogue of a product adds to it: the sums are still at hand, so one more matrix is written or read.
Work work_of(Epilogue epilogue, double elements, double element_bytes) {
  if (epilogue == Epilogue::none) return {};
  const double flops = epilogue == Epilogue::gelu ? kGeluFlops : kGeluGradientFlops;
  return {flops * elements, element_bytes * elements, 0};
}

// The causal half of the score matrix, rows averaged: (seq + 1) / 2 keys a query.
double causal_pairs(std::int64_t batch, std::int64_t seq, std::int64_t heads) {
  return static_cast<double>(batch * heads) * static_cast<double>(seq) * (static_cast<double>(seq) + 1) / 2;
}

}  // namespace

std::string_view to_string(Channel channel) {
  switch (channel) {
    case Channel::x:
      return "x";
    case Channel::y:
      return "y";
    case Channel::z_gather:
      return "z_gather";
    case Channel::z_scatter:
      return "z_scatter";
    case Channel::data:
      return "data";
    case Channel::world:
      return "world";
  }
  return "?";
}

std::string_view kind_name(const Operation& operation) {
  return std::visit(Overloaded{[](const Gemm&) { return "gemm"; },
                               [](const PackWeight&) { return "pack_weight"; },
                               [](const BiasGradient&) { return "bias_gradient"; },
                               [](const AddBias&) { return "add_bias"; },
                               [](const LayerNormForward&) { return "layer_norm"; },
                               [](const LayerNormBackward&) { return "layer_norm_backward"; },
                               [](const RmsNormForward&) { return "rms_norm"; },
                               [](const RmsNormBackward&) { return "rms_norm_backward"; },
                               [](const NormStatistics&) { return "norm_statistics"; },
                               [](const NormForwardOfParts&) { return "norm_of_parts"; },
                               [](const NormBackwardSums&) { return "norm_backward_sums"; },
                               [](const NormBackwardOfParts&) { return "norm_backward_of_parts"; },
                               [](const TakeColumns&) { return "take_columns"; },
                               [](const PutColumns&) { return "put_columns"; },
                               [](const EmbeddingForward&) { return "embedding"; },
                               [](const EmbeddingBackward&) { return "embedding_backward"; },
                               [](const PositionBackward&) { return "position_backward"; },
                               [](const Rope&) { return "rope"; },
                               [](const AttentionForward&) { return "attention"; },
                               [](const AttentionBackward&) { return "attention_backward"; },
                               [](const CacheStore&) { return "cache_store"; },
                               [](const AttentionDecode&) { return "attention_decode"; },
                               [](const GeluForward&) { return "gelu"; },
                               [](const GeluBackward&) { return "gelu_backward"; },
                               [](const SwiGluForward&) { return "swiglu"; },
                               [](const SwiGluBackward&) { return "swiglu_backward"; },
                               [](const Add&) { return "add"; },
                               [](const Cast&) { return "cast"; },
                               [](const Dropout&) { return "dropout"; },
                               [](const CrossEntropy&) { return "cross_entropy"; },
                               [](const VocabStatistics&) { return "vocab_statistics"; },
                               [](const VocabCrossEntropy&) { return "vocab_cross_entropy"; },
                               [](const LossSum&) { return "loss_sum"; },
                               [](const SumSquares&) { return "sum_squares"; },
                               [](const ClipFactor&) { return "clip_factor"; },
                               [](const AdamW&) { return "adamw"; },
                               [](const SelectRow&) { return "select_row"; },
                               [](const AllReduce&) { return "all_reduce"; },
                               [](const ReduceScatter&) { return "reduce_scatter"; },
                               [](const AllGather&) { return "all_gather"; },
                               [](const Broadcast&) { return "broadcast"; }},
                    operation);
}

const Channel* channel_of(const Operation& operation) {
  return std::visit(
      [](const auto& o) -> const Channel* {
        if constexpr (requires { o.channel; }) {
          return &o.channel;
        } else {
          return nullptr;
        }
      },
      operation);
}

Work work_of(const Operation& operation, double e) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  // Sent by one rank of n when `elements` have to reach or leave everybody once.
  const auto share = [&](std::int64_t ranks, double elements) { return elements * e * d(ranks - 1) / d(ranks); };
  return std::visit(
      Overloaded{
          [&](const Gemm& o) {
            const Work after = work_of(o.epilogue, d(o.m) * d(o.n), e);
            return Work{2 * d(o.m) * d(o.n) * d(o.k) + after.flops,
                        e * (d(o.m) * d(o.k) + (o.accumulate ? 2 : 1) * d(o.m) * d(o.n)) +
                            (o.packed_b ? kPackedElement : e) * d(o.k) * d(o.n) + after.bytes,
                        0};
          },
          [&](const PackWeight& o) {
            return Work{0, (e + kPackedElement) * d(o.k) * d(o.n), 0};
          },
          [&](const BiasGradient& o) {
            return Work{d(o.rows * o.cols), e * d(o.rows * o.cols), 0};
          },
          [&](const AddBias& o) {
            return Work{d(o.rows * o.cols), 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const LayerNormForward& o) {
            return Work{8 * d(o.rows * o.cols), 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const LayerNormBackward& o) {
            return Work{14 * d(o.rows * o.cols), (o.residual ? 4 : 3) * e * d(o.rows * o.cols), 0};
          },
          [&](const RmsNormForward& o) {
            return Work{5 * d(o.rows * o.cols), 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const RmsNormBackward& o) {
            return Work{10 * d(o.rows * o.cols), (o.residual ? 4 : 3) * e * d(o.rows * o.cols), 0};
          },
          [&](const NormStatistics& o) {
            return Work{(o.centered ? 4 : 2) * d(o.rows * o.cols), e * d(o.rows * o.cols), 0};
          },
          [&](const NormForwardOfParts& o) {
            return Work{(o.centered ? 4 : 2) * d(o.rows * o.cols), 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const NormBackwardSums& o) {
            return Work{(o.centered ? 6 : 4) * d(o.rows * o.cols), 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const NormBackwardOfParts& o) {
            return Work{(o.centered ? 10 : 7) * d(o.rows * o.cols), (o.residual ? 4 : 3) * e * d(o.rows * o.cols), 0};
          },
          [&](const TakeColumns& o) {
            return Work{0, 2 * e * d(o.rows * o.cols), 0};
          },
          [&](const PutColumns& o) {
            return Work{0, e * d(o.rows * o.cols * (1 + o.windows)), 0};
          },
          [&](const EmbeddingForward& o) {
            return Work{d(o.rows * o.cols), 3 * e * d(o.rows * o.cols), 0};
          },
          [&](const EmbeddingBackward& o) {
            return Work{d(o.rows * o.cols), (e + 8) * d(o.rows * o.cols) + (o.accumulate ? 0 : 4 * d(o.vocab * o.cols)),
                        0};
          },
          [&](const PositionBackward& o) {
            return Work{d(o.rows * o.cols), e * d(o.rows * o.cols) + 4 * d(o.context * o.cols), 0};
          },
          [&](const Rope& o) {
            return Work{3 * d(o.rows * o.heads * o.head_dim), 2 * e * d(o.rows * o.heads * o.head_dim), 0};
          },
          [&](const AttentionForward& o) {
            return Work{4 * causal_pairs(o.batch, o.seq, o.heads) * d(o.head_dim),
                        e * 2 * d(o.batch * o.seq * (o.heads + o.kv_heads) * o.head_dim), 0};
          },
          [&](const AttentionBackward& o) {
            return Work{10 * causal_pairs(o.batch, o.seq, o.heads) * d(o.head_dim),
                        e * 4 * d(o.batch * o.seq * (o.heads + o.kv_heads) * o.head_dim), 0};
          },
          [&](const CacheStore& o) {
            return Work{0, 2 * e * d(o.batch * o.seq * o.cols), 0};
          },
          [&](const AttentionDecode& o) {
            return Work{4 * d(o.batch * o.heads * o.context * o.head_dim),
                        2 * e * d(o.batch * o.kv_heads * o.context * o.head_dim), 0};
          },
          [&](const GeluForward& o) {
            return Work{kGeluFlops * d(o.n), 2 * e * d(o.n), 0};
          },
          [&](const GeluBackward& o) {
            return Work{kGeluGradientFlops * d(o.n), 3 * e * d(o.n), 0};
          },
          [&](const SwiGluForward& o) {
            return Work{10 * d(o.rows * o.cols), 3 * e * d(o.rows * o.cols), 0};
          },
          [&](const SwiGluBackward& o) {
            return Work{18 * d(o.rows * o.cols), 5 * e * d(o.rows * o.cols), 0};
          },
          [&](const Add& o) {
            return Work{d(o.n), 3 * e * d(o.n), 0};
          },
          [&](const Cast& o) {
            return Work{d(o.n), 6 * d(o.n), 0};
          },
          [&](const Dropout& o) {
            return Work{30 * d(o.rows * o.cols), (o.residual ? 3 : 2) * e * d(o.rows * o.cols), 0};
          },
          [&](const CrossEntropy& o) {
            return Work{12 * d(o.rows * o.padded), (o.gradient ? 3 : 1) * e * d(o.rows * o.padded), 0};
          },
          [&](const VocabStatistics& o) {
            return Work{6 * d(o.rows * o.cols), e * d(o.rows * o.cols), 0};
          },
          [&](const VocabCrossEntropy& o) {
            return Work{o.gradient ? 6 * d(o.rows * o.cols) : d(o.rows), o.gradient ? 2 * e * d(o.rows * o.cols) : 0,
                        0};
          },
          [&](const LossSum& o) {
            return Work{d(o.rows), 8 * d(o.rows), 0};
          },
          [&](const SumSquares& o) {
            return Work{2 * d(o.n), 4 * d(o.n), 0};
          },
          [&](const ClipFactor& o) {
            return Work{2 * d(o.count), 4 * d(o.count), 0};
          },
          [&](const AdamW& o) {
            return Work{15 * d(o.n), (o.has_master ? 32.0 : 28.0) * d(o.n), 0};
          },
          [&](const SelectRow& o) {
            return Work{0, 2 * e * d(o.cols), 0};
          },
          [&](const AllReduce& o) {
            return Work{d(o.count), 3 * e * d(o.count), 2 * share(o.ranks, d(o.count))};
          },
          [&](const ReduceScatter& o) {
            return Work{d(o.ranks * o.count), e * d((o.ranks + 1) * o.count), share(o.ranks, d(o.ranks * o.count))};
          },
          [&](const AllGather& o) {
            return Work{0, e * d((o.ranks + 1) * o.count), share(o.ranks, d(o.ranks * o.count))};
          },
          [&](const Broadcast& o) {
            return Work{0, 2 * e * d(o.count), e * d(o.ranks == 1 ? 0 : o.count)};
          },
      },
      operation);
}

}  // namespace weft
