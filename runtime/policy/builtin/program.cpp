#include "runtime/policy/builtin/program.h"

#include <utility>
#include <vector>

#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {

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
    order.added_edges.push_back(policy_edge(from.task, to.task, graph::EdgeKind::completes_before, distance));
  };
  for (std::size_t i = 1; i < order.sequence.size(); ++i) chain(order.sequence[i - 1], order.sequence[i], 0);
  if (!order.sequence.empty()) chain(order.sequence.back(), order.sequence.front(), 1);
  return order;
}

std::vector<plan::Order> SerialPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<std::vector<graph::TaskId>> wanted;
  for (const auto& graph : classes) {
    plan::streams_of(*graph, options.compute_streams);  // refuses bad options, as every policy does
    wanted.push_back(ReorderedProgram(*graph).sequence());
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

namespace {

/// Moves each gather to where it may be issued. Returns by task the computation before which it must not be issued;
/// invalid for gathers that may be issued at once and for other tasks.
std::vector<graph::TaskId> anchor_gathers(const graph::Graph& graph, std::size_t depth, ReorderedProgram& program) {
  std::vector<graph::TaskId> anchors(graph.tasks().size());
  std::vector<graph::TaskId> first_of_visit;  // its first computation
  graph::TaskId last;                         // last computation so far
  for (const Visit& visit : visits_of(graph)) {
    first_of_visit.emplace_back();
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      const graph::Task& task = graph.tasks()[i];
      if (!graph::is_collective(task.operation)) {
        last = graph::TaskId(i);
        if (!first_of_visit.back().valid()) first_of_visit.back() = last;
      } else if (is_gather(task)) {
        const bool waits = first_of_visit.size() > depth;
        const graph::TaskId anchor = waits ? first_of_visit[first_of_visit.size() - 1 - depth] : graph::TaskId();
        anchors[i] = waits && !anchor.valid() ? last : anchor;  // a visit may begin with its gather
        program.behind(graph::TaskId(i), anchors[i]);
      }
    }
  }
  return anchors;
}

}  // namespace

ProgramPolicy::ProgramPolicy(PolicyParameters& parameters) : depth_(parameters.integer("depth", -1, 0, 1 << 20)) {}

plan::Order ProgramPolicy::order_of(const graph::Graph& graph, const PolicyOptions& options) const {
  ReorderedProgram program(graph);
  std::vector<graph::TaskId> anchors;
  if (depth_ >= 0) anchors = anchor_gathers(graph, static_cast<std::size_t>(depth_), program);
  plan::Order order = program_order(graph, options, program.sequence());
  if (depth_ < 0) return order;
  const auto reason = static_cast<std::uint32_t>(order.reasons.size());
  order.reasons.push_back({.table = &kReasons, .numbers = {static_cast<std::uint64_t>(depth_)}});
  EdgeAdder edges(order);
  for (plan::Placement& placement : order.sequence) {
    const graph::TaskId anchor = anchors[placement.task.index()];
    if (edges.add(anchor, placement.task, graph::EdgeKind::issued_before)) placement.reason = reason;
  }
  return order;
}

std::vector<plan::Order> ProgramPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  std::vector<plan::Order> orders;
  for (const auto& graph : classes) orders.push_back(order_of(*graph, options));
  return joined_orders(classes, std::move(orders), options);
}

}  // namespace weft::policy
