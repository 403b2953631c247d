#include "inspect/formats/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "graph/analysis.h"
#include "graph/groups.h"
#include "inspect/formats/protobuf.h"
#include "runtime/plan/collective_signature.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kSchema = "0.0.4";

namespace node {
constexpr std::uint32_t id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5, duration = 7, attribute = 10;
constexpr std::uint64_t comp = 4, comm_coll = 7;
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
  if (const auto* cast = std::get_if<graph::Broadcast>(&operation)) return {5, cast->count * size};
  throw std::logic_error(fmt::format("Chakra has no collective for '{}'", signature.task));
}

}  // namespace

ChakraTraces::ChakraTraces(const plan::Plan& plan, const graph::Grid& grid, std::vector<double> ns)
    : plan_(plan), grid_(grid), ns_(std::move(ns)) {
  const std::size_t tasks = plan.sequence.size();
  if (ns_.size() != tasks) throw std::logic_error("durations of another graph");
  std::vector<std::uint64_t> place(tasks);
  std::vector<std::optional<std::uint64_t>> last(plan.streams.size());
  data_deps_.resize(tasks), ctrl_deps_.resize(tasks);
  for (std::size_t i = 0; i < tasks; ++i) {
    const graph::TaskId id = plan.sequence[i];
    place[id.index()] = i;
    if (const auto before = std::exchange(last[plan.position[id.index()].stream.index()], i)) {
      ctrl_deps_[i].push_back(*before);
    }
  }
  const auto add_edges = [&](std::span<const graph::Edge> edges) {
    for (const graph::Edge& edge : edges) {
      if (edge.distance > 0) continue;
      auto& deps = edge.kind == graph::EdgeKind::completes_before ? data_deps_ : ctrl_deps_;
      deps[place[edge.to.index()]].push_back(place[edge.from.index()]);
    }
  };
  add_edges(plan.graph->edges());
  add_edges(plan.added_edges);
  for (auto* all : {&data_deps_, &ctrl_deps_}) {
    for (auto& deps : *all) {
      std::ranges::sort(deps);
      deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
    }
  }
  for (const graph::TaskId id : plan.collectives) {
    const graph::Channel channel = *graph::channel_of(plan.graph->task(id).operation);
    auto& named = group_of_[static_cast<std::size_t>(channel)];
    if (!named.empty()) continue;
    for (auto& ranks : graph::groups_of(grid, channel)) {
      groups_.push_back(std::move(ranks));
      named.emplace(graph::group_color(grid, channel, groups_.back().front()), groups_.size());
    }
  }
}

std::string ChakraTraces::trace(std::int64_t rank) const {
  ProtoMessage metadata;
  std::string out = metadata.text(1, kSchema).delimited();
  for (std::size_t i = 0; i < plan_.sequence.size(); ++i) {
    const graph::TaskId id = plan_.sequence[i];
    const graph::Task& task = plan_.graph->task(id);
    const graph::Channel* channel = graph::channel_of(task.operation);
    ProtoMessage one;
    if (i > 0) one.varint(node::id, i);  // proto3 leaves out zeros
    one.text(node::name, task.name).varint(node::type, channel == nullptr ? node::comp : node::comm_coll);
    one.packed(node::ctrl_deps, ctrl_deps_[i]).packed(node::data_deps, data_deps_[i]);
    one.varint(node::duration, static_cast<std::uint64_t>(std::max(1LL, std::llround(ns_[id.index()] * 1e-3))));
    add_attribute(one, "is_cpu_op", ValueField::boolean, 0);
    if (channel == nullptr) {
      const graph::Work work = graph::work_of(*plan_.graph, task);
      add_attribute(one, "num_ops", ValueField::int64, static_cast<std::uint64_t>(std::llround(work.flops)));
      add_attribute(one, "tensor_size", ValueField::uint64, static_cast<std::uint64_t>(std::llround(work.bytes)));
    } else {
      const Collective collective = collective_of(*plan_.graph, id);
      const auto& named = group_of_[static_cast<std::size_t>(*channel)];
      add_attribute(one, "comm_type", ValueField::int64, collective.type);
      add_attribute(one, "comm_size", ValueField::int64, static_cast<std::uint64_t>(collective.bytes));
      add_attribute(one, "pg_name", std::to_string(named.at(graph::group_color(grid_, *channel, rank))));
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
