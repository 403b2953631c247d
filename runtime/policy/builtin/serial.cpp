#include "runtime/policy/builtin/serial.h"

namespace weft {

Order SerialPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  streams_of(graph, options.compute_streams);  // refuses a bad option as every policy does
  Order order;
  order.streams = streams_of(graph, 1);
  order.reasons = {{.kind = ReasonKind::program_order}, {.kind = ReasonKind::blocking}};
  const StreamId compute(std::size_t{0});
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Channel* channel = channel_of(graph.tasks()[i].operation);
    const StreamId stream = channel == nullptr ? compute : stream_of_channel(order.streams, *channel);
    order.sequence.push_back({TaskId(i), stream, channel == nullptr ? 0U : 1U});
  }
  // A chain through every change of stream orders all tasks; within a stream the queue does.
  const auto chain = [&](const Placement& from, const Placement& to, std::uint8_t distance) {
    if (from.stream == to.stream) return;
    order.added_edges.push_back(
        {from.task, to.task, EdgeKind::completes_before, EdgeReason::policy, distance, TensorId()});
  };
  for (std::size_t i = 1; i < order.sequence.size(); ++i) chain(order.sequence[i - 1], order.sequence[i], 0);
  if (!order.sequence.empty()) chain(order.sequence.back(), order.sequence.front(), 1);
  return order;
}

}  // namespace weft
