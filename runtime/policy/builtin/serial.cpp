#include "runtime/policy/builtin/serial.h"

#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {

std::vector<graph::TaskId> program_sequence(const graph::Graph& graph) {
  std::vector<graph::TaskId> sequence;
  sequence.reserve(graph.tasks().size());
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) sequence.emplace_back(i);
  return sequence;
}

plan::Order serial_order(const graph::Graph& graph, std::span<const graph::TaskId> sequence) {
  plan::Order order;
  order.streams = plan::streams_of(graph, 1);
  order.reasons = {{.table = &kProgramReasons, .code = kProgramOrder}, {.table = &SerialPolicy::kReasons}};
  const plan::StreamId compute(std::size_t{0});
  for (const graph::TaskId task : sequence) {
    const graph::Channel* channel = graph::channel_of(graph.task(task).operation);
    const plan::StreamId stream = channel == nullptr ? compute : plan::stream_of_channel(order.streams, *channel);
    order.sequence.push_back({task, stream, channel == nullptr ? 0U : 1U});
  }
  // An edge at every change of stream orders all tasks; within a stream the queue does.
  const auto chain = [&](const plan::Placement& from, const plan::Placement& to, std::uint8_t distance) {
    if (from.stream == to.stream) return;
    order.added_edges.push_back({from.task, to.task, graph::EdgeKind::completes_before, graph::EdgeReason::policy,
                                 distance, graph::TensorId()});
  };
  for (std::size_t i = 1; i < order.sequence.size(); ++i) chain(order.sequence[i - 1], order.sequence[i], 0);
  if (!order.sequence.empty()) chain(order.sequence.back(), order.sequence.front(), 1);
  return order;
}

std::vector<plan::Order> SerialPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<std::vector<graph::TaskId>> wanted;
  for (const auto& graph : classes) {
    plan::streams_of(*graph, options.compute_streams);  // refuses bad options, as every policy does
    wanted.push_back(program_sequence(*graph));
  }
  return serial_orders(classes, wanted, options);
}

std::vector<plan::Order> serial_orders(graph::Classes classes, const std::vector<std::vector<graph::TaskId>>& wanted,
                                       const PolicyOptions& options) {
  std::vector<plan::Order> orders;
  for (const std::vector<graph::TaskId>& sequence : joint_sequences(classes, wanted, options))
    orders.push_back(serial_order(*classes[orders.size()], sequence));
  return orders;
}

}  // namespace weft::policy
