#include "inspect/formats/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "graph/analysis.h"
#include "graph/grid.h"
#include "inspect/formats/protobuf.h"
#include "runtime/plan/collective_signature.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kSchema = "0.0.4";

namespace node {
constexpr std::uint32_t id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5, duration = 7, attribute = 10;
constexpr std::uint64_t comp = 4, comm_send = 5, comm_recv = 6, comm_coll = 7;
}  // namespace node

/// Values of an attribute stand in a field for their type.
enum class ValueField : std::uint32_t { int64 = 9, uint64 = 13, boolean = 27 };

void add_attribute(ProtoMessage& to, std::string_view name, ValueField field, std::uint64_t value) {
  ProtoMessage attribute;
  to.message(node::attribute, attribute.text(1, name).varint(static_cast<std::uint32_t>(field), value));
}

void add_attribute(ProtoMessage& to, std::string_view name, std::string_view value) {
  constexpr std::uint32_t kText = 29;
  ProtoMessage attribute;
  to.message(node::attribute, attribute.text(1, name).text(kText, value));
}

/// CollectiveCommType, and the bytes that a rank gives: of its whole input.
struct Collective {
  std::uint64_t type = 0;
  std::int64_t bytes = 0;
};

Collective collective_of(const graph::Graph& graph, graph::TaskId id) {
  const plan::CollectiveSignature signature = plan::signature_of(graph, id);
  const graph::Operation& operation = graph.task(id).operation;
  const auto size = static_cast<std::int64_t>(size_of(signature.dtype));
  if (const auto* reduce = std::get_if<graph::AllReduce>(&operation)) return {0, reduce->count * size};
  if (const auto* gather = std::get_if<graph::AllGather>(&operation)) return {2, gather->count * size};
  if (const auto* scatter = std::get_if<graph::ReduceScatter>(&operation))
    return {7, scatter->ranks * scatter->count * size};
  if (const auto* exchange = std::get_if<graph::AllToAll>(&operation)) return {6, exchange->elements() * size};
  // Chakra knows equal parts alone: those of equal shares.
  if (const auto* rows = std::get_if<graph::ExchangeRows>(&operation)) return {6, rows->rows * rows->count * size};
  if (const auto* cast = std::get_if<graph::Broadcast>(&operation)) return {5, cast->count * size};
  throw std::logic_error(fmt::format("Chakra has no collective for '{}'", signature.task));
}

/// One end of a message between stages. Both ends have one tag, which no other message of the two ranks has.
struct Message {
  bool sends = false;
  std::int64_t bytes = 0;
  std::uint64_t tag = 0;
};

/// nullopt: a collective.
std::optional<Message> message_of(const graph::Graph& graph, graph::TaskId id) {
  const graph::Operation& operation = graph.task(id).operation;
  const auto made = [&](const auto& end, bool sends) {
    const bool back = end.channel == graph::Channel::send_previous || end.channel == graph::Channel::receive_next;
    const auto size = static_cast<std::int64_t>(size_of(plan::signature_of(graph, id).dtype));
    return Message{sends, end.count * size, 2 * static_cast<std::uint64_t>(end.message) + (back ? 1 : 0)};
  };
  if (const auto* send = std::get_if<graph::Send>(&operation)) return made(*send, true);
  if (const auto* receive = std::get_if<graph::Receive>(&operation)) return made(*receive, false);
  return std::nullopt;
}

}  // namespace

ChakraTraces::ChakraTraces(const std::vector<const plan::Plan*>& plans, const graph::Grid& grid,
                           std::vector<std::vector<double>> ns)
    : grid_(grid) {
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const plan::Plan& plan = *plans[k];
    Class& own = classes_.emplace_back(Class{&plan, std::move(ns[k])});
    const std::size_t tasks = plan.sequence.size();
    if (own.ns.size() != tasks) throw std::logic_error("durations of another graph");
    std::vector<std::uint64_t> place(tasks);
    std::vector<std::optional<std::uint64_t>> last(plan.streams.size());
    own.data_deps.resize(tasks), own.ctrl_deps.resize(tasks);
    for (std::size_t i = 0; i < tasks; ++i) {
      const graph::TaskId id = plan.sequence[i];
      place[id.index()] = i;
      if (const auto before = std::exchange(last[plan.position[id.index()].stream.index()], i)) {
        own.ctrl_deps[i].push_back(*before);
      }
    }
    const auto add_edges = [&](std::span<const graph::Edge> edges) {
      for (const graph::Edge& edge : edges) {
        if (edge.distance > 0) continue;
        auto& deps = edge.kind == graph::EdgeKind::completes_before ? own.data_deps : own.ctrl_deps;
        deps[place[edge.to.index()]].push_back(place[edge.from.index()]);
      }
    };
    add_edges(plan.graph->edges());
    add_edges(plan.added_edges);
    for (auto* all : {&own.data_deps, &own.ctrl_deps}) {
      for (auto& deps : *all) {
        std::ranges::sort(deps);
        deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
      }
    }
    add_groups(plan);
  }
}

void ChakraTraces::add_groups(const plan::Plan& plan) {
  for (const graph::TaskId id : plan.collectives) {
    const graph::Channel channel = *graph::channel_of(plan.graph->task(id).operation);
    if (graph::is_message(channel)) continue;
    auto& named = group_of_[channel];
    if (!named.empty()) continue;
    for (auto& ranks : graph::groups_of(grid_, channel)) {
      groups_.push_back(std::move(ranks));
      named.emplace(graph::group_color(grid_, channel, groups_.back().front()), groups_.size());
    }
  }
}

std::string ChakraTraces::trace(std::int64_t rank) const {
  const Class& own = classes_.at(static_cast<std::size_t>(graph::coordinates_of(grid_, rank).pipe));
  const graph::Graph& graph = *own.plan->graph;
  ProtoMessage metadata;
  std::string out = metadata.text(1, kSchema).delimited();
  for (std::size_t i = 0; i < own.plan->sequence.size(); ++i) {
    const graph::TaskId id = own.plan->sequence[i];
    const graph::Task& task = graph.task(id);
    const graph::Channel* channel = graph::channel_of(task.operation);
    const auto message = channel != nullptr ? message_of(graph, id) : std::nullopt;
    ProtoMessage one;
    if (i > 0) one.varint(node::id, i);  // proto3 leaves out zeros
    one.text(node::name, task.name)
        .varint(node::type, channel == nullptr ? node::comp
                            : !message         ? node::comm_coll
                            : message->sends   ? node::comm_send
                                               : node::comm_recv);
    one.packed(node::ctrl_deps, own.ctrl_deps[i]).packed(node::data_deps, own.data_deps[i]);
    one.varint(node::duration, static_cast<std::uint64_t>(std::max(1LL, std::llround(own.ns[id.index()] * 1e-3))));
    add_attribute(one, "is_cpu_op", ValueField::boolean, 0);
    if (channel == nullptr) {
      const graph::Work work = graph::work_of(graph, task);
      add_attribute(one, "num_ops", ValueField::int64, static_cast<std::uint64_t>(std::llround(work.flops)));
      add_attribute(one, "tensor_size", ValueField::uint64, static_cast<std::uint64_t>(std::llround(work.bytes)));
    } else if (message) {
      const auto peer = static_cast<std::uint64_t>(graph::peer_rank(grid_, *channel, rank));
      const auto here = static_cast<std::uint64_t>(rank);
      add_attribute(one, "comm_size", ValueField::int64, static_cast<std::uint64_t>(message->bytes));
      add_attribute(one, "comm_src", ValueField::int64, message->sends ? here : peer);
      add_attribute(one, "comm_dst", ValueField::int64, message->sends ? peer : here);
      add_attribute(one, "comm_tag", ValueField::int64, message->tag);
    } else {
      const Collective collective = collective_of(graph, id);
      add_attribute(one, "comm_type", ValueField::int64, collective.type);
      add_attribute(one, "comm_size", ValueField::int64, static_cast<std::uint64_t>(collective.bytes));
      const std::size_t group = group_of_.at(*channel).at(graph::group_color(grid_, *channel, rank));
      add_attribute(one, "pg_name", std::to_string(group));
    }
    out += one.delimited();
  }
  return out;
}

std::string ChakraTraces::groups() const {
  std::string text = "{";
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    text += fmt::format("{}\n\"{}\": [{}]", i == 0 ? "" : ",", i + 1, fmt::join(groups_[i], ", "));
  }
  return text + "\n}\n";
}

}  // namespace weft::inspect
