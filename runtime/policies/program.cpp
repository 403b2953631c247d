#include "runtime/policies/program.h"

#include <unordered_map>

namespace weft {
namespace {

enum Reason : std::uint32_t { kProgramOrder, kInPlace, kWeightGradient, kBiasGradient, kEmbeddingGradient };

/// Which gradient of a parameter the task computes off the chain of input gradients, or kProgramOrder for none.
Reason side_gradient(const Task& task) {
  if (task.phase != Phase::backward) return kProgramOrder;
  if (const auto* gemm = std::get_if<Gemm>(&task.operation); gemm != nullptr && gemm->trans_a) return kWeightGradient;
  if (std::holds_alternative<BiasGradient>(task.operation)) return kBiasGradient;
  if (std::holds_alternative<EmbeddingBackward>(task.operation)) return kEmbeddingGradient;
  if (std::holds_alternative<PositionBackward>(task.operation)) return kEmbeddingGradient;
  return kProgramOrder;
}

TensorId written_tensor(const Task& task) {
  for (const Access& access : task.accesses) {
    if (access.mode != AccessMode::read) return access.view.tensor;
  }
  return TensorId();
}

}  // namespace

ProgramPolicy::ProgramPolicy(PolicyParameters& parameters) : depth_(parameters.integer("depth", -1, 0, 1 << 20)) {}

Order ProgramPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  Order order;
  order.streams = streams_of(graph, options.compute_streams);
  order.reasons = {"program order", "issued in place, waited for where its result is used",
                   "weight gradient: off the chain of input gradients",
                   "bias gradient: off the chain of input gradients",
                   "embedding gradient: off the chain of input gradients"};
  const auto side_streams = static_cast<std::size_t>(options.compute_streams) - 1;
  std::unordered_map<TensorId, StreamId> stream_of_gradient;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    Placement placement{TaskId(i), StreamId(std::size_t{0}), kProgramOrder};
    if (const Channel* channel = channel_of(task.operation)) {
      placement.stream = stream_of_channel(order.streams, *channel);
      placement.reason = kInPlace;
    } else if (const Reason reason = side_gradient(task); reason != kProgramOrder && side_streams > 0) {
      const StreamId next(1 + stream_of_gradient.size() % side_streams);
      placement.stream = stream_of_gradient.try_emplace(written_tensor(task), next).first->second;
      placement.reason = reason;
    }
    order.sequence.push_back(placement);
  }
  return order;
}

}  // namespace weft
