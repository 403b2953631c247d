#include "graph/operation.h"

#include <utility>

namespace weft::graph {

Operation::Operation() = default;
Operation::Operation(const Operation& other) = default;
Operation::Operation(Operation&& other) noexcept = default;
Operation& Operation::operator=(const Operation& other) = default;
Operation& Operation::operator=(Operation&& other) noexcept = default;
Operation::~Operation() = default;

template <class Op>
requires is_alternative_of<Op, OperationVariant> Operation::Operation(Op op) : OperationVariant(std::move(op)) {}

template Operation::Operation(Gemm);
template Operation::Operation(PackWeight);
template Operation::Operation(BiasGradient);
template Operation::Operation(AddBias);
template Operation::Operation(LayerNormForward);
template Operation::Operation(LayerNormBackward);
template Operation::Operation(RmsNormForward);
template Operation::Operation(RmsNormBackward);
template Operation::Operation(HeadNormForward);
template Operation::Operation(HeadNormBackward);
template Operation::Operation(NormStatistics);
template Operation::Operation(NormForwardOfParts);
template Operation::Operation(NormBackwardSums);
template Operation::Operation(NormBackwardOfParts);
template Operation::Operation(TakeColumns);
template Operation::Operation(PutColumns);
template Operation::Operation(EmbeddingForward);
template Operation::Operation(EmbeddingBackward);
template Operation::Operation(PositionBackward);
template Operation::Operation(Rope);
template Operation::Operation(AttentionForward);
template Operation::Operation(AttentionBackward);
template Operation::Operation(CacheStore);
template Operation::Operation(AttentionDecode);
template Operation::Operation(GeluForward);
template Operation::Operation(GeluBackward);
template Operation::Operation(SwiGluForward);
template Operation::Operation(SwiGluBackward);
template Operation::Operation(Add);
template Operation::Operation(Scale);
template Operation::Operation(Zero);
template Operation::Operation(Cast);
template Operation::Operation(Dropout);
template Operation::Operation(CrossEntropy);
template Operation::Operation(VocabStatistics);
template Operation::Operation(VocabCrossEntropy);
template Operation::Operation(LossSum);
template Operation::Operation(SumSquares);
template Operation::Operation(ClipFactor);
template Operation::Operation(AdamW);
template Operation::Operation(SelectRow);
template Operation::Operation(AllReduce);
template Operation::Operation(ReduceScatter);
template Operation::Operation(AllGather);
template Operation::Operation(Broadcast);
template Operation::Operation(Send);
template Operation::Operation(Receive);
template Operation::Operation(Opaque);

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
    case Channel::pipe:
      return "pipe";
    case Channel::embedding:
      return "embedding";
    case Channel::stage:
      return "stage";
    case Channel::send_next:
      return "send_next";
    case Channel::receive_previous:
      return "receive_previous";
    case Channel::send_previous:
      return "send_previous";
    case Channel::receive_next:
      return "receive_next";
  }
  return "own";
}

std::string_view kind_name(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation); opaque != nullptr && !opaque->name.empty()) {
    return opaque->name;
  }
  return std::visit([](const auto& op) { return op.kind; }, operation);
}

KindClass kind_class(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation)) return opaque->drawn_as;
  return std::visit([](const auto& op) { return op.kind_class; }, operation);
}

const Channel* channel_of(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation)) return opaque->queued ? &opaque->queue : nullptr;
  return std::visit(
      [](const auto& op) -> const Channel* {
        if constexpr (requires { op.channel; }) {
          return &op.channel;
        } else {
          return nullptr;
        }
      },
      operation);
}

bool is_collective(const Operation& operation) {
  const auto* opaque = std::get_if<Opaque>(&operation);
  return opaque == nullptr ? channel_of(operation) != nullptr : opaque->queued && !opaque->local;
}

Work work_of(const Operation& operation, double element_bytes) {
  return std::visit([&](const auto& op) { return op.work(element_bytes); }, operation);
}

std::string_view contradiction_in(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> std::string_view {
        if constexpr (requires { op.contradiction(); }) {
          return op.contradiction();
        } else {
          return "";
        }
      },
      operation);
}

}  // namespace weft::graph
