#include "inspect/formats/dump_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "graph/groups.h"
#include "graph/operation_fields.h"

namespace weft::inspect {
namespace {

using nlohmann::json;

json fields_of(const graph::Operation& operation) {
  json fields = json::object();
  graph::for_each_field(operation, [&](std::string_view name, auto value) {
    json& field = fields[std::string(name)];
    if constexpr (std::is_enum_v<decltype(value)>) {
      field = to_string(value);
    } else if constexpr (std::is_same_v<decltype(value), float>) {
      // The shortest decimal that reads back as this float: 1e-05, not its double expansion.
      field = json::parse(fmt::format("{}", value));
    } else {
      field = value;
    }
  });
  return fields;
}

json to_json(const graph::Tensor& tensor, std::size_t id) {
  return {{"id", id},
          {"name", tensor.name},
          {"dtype", weft::to_string(tensor.dtype)},
          {"role", weft::graph::to_string(tensor.role)},
          {"shape", tensor.shape}};
}

json to_json(const graph::Task& task, std::size_t id) {
  json accesses = json::array();
  for (const graph::Access& access : task.accesses) {
    accesses.push_back({{"tensor", access.view.tensor.value},
                        {"mode", weft::graph::to_string(access.mode)},
                        {"offset", access.view.offset},
                        {"rows", access.view.rows},
                        {"cols", access.view.cols},
                        {"row_stride", access.view.row_stride}});
  }
  return {{"id", id},
          {"name", task.name},
          {"kind", graph::kind_name(task.operation)},
          {"operation", fields_of(task.operation)},
          {"accesses", accesses},
          {"layer", task.layer},
          {"micro_batch", task.micro_batch},
          {"phase", weft::graph::to_string(task.phase)}};
}

json to_json(const graph::Edge& edge, std::size_t) {
  return {{"from", edge.from.value},
          {"to", edge.to.value},
          {"kind", edge.kind == graph::EdgeKind::completes_before ? "completes_before" : "issued_before"},
          {"reason", weft::graph::to_string(edge.reason)},
          {"distance", edge.distance},
          {"tensor", edge.tensor.valid() ? json(edge.tensor.value) : json(nullptr)}};
}

json to_json(const graph::Grid& grid) {
  json json = {{"order", json::array()}};
  for (const graph::Axis axis : graph::kAxes) json[std::string(graph::to_string(axis))] = grid.on(axis);
  for (const graph::Axis axis : grid.order) json["order"].push_back(graph::to_string(axis));
  return json;
}

json groups_to_json(const graph::Graph& graph, const graph::Grid& grid) {
  json groups = json::object();
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr || groups.contains(graph::to_string(*channel))) continue;
    groups[std::string(graph::to_string(*channel))] = graph::groups_of(grid, *channel);
  }
  return groups;
}

template <class Items>
void append_array(std::string& out, std::string_view key, const Items& items) {
  out += fmt::format(",\n\"{}\":[", key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    out += to_json(items[i], i).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  out += items.empty() ? "]" : "\n]";
}

}  // namespace

std::string dump_json(const graph::Graph& graph, const std::optional<graph::Grid>& grid) {
  std::string out =
      fmt::format("{{\"format\":\"weft.graph\",\"version\":1,\"fingerprint\":\"{:#018x}\"", graph.fingerprint());
  if (grid)
    out += fmt::format(",\n\"grid\":{},\n\"groups\":{}", to_json(*grid).dump(), groups_to_json(graph, *grid).dump());
  append_array(out, "tensors", graph.tensors());
  append_array(out, "tasks", graph.tasks());
  append_array(out, "edges", graph.edges());
  out += "\n}\n";
  return out;
}

}  // namespace weft::inspect
