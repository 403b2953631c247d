#include "inspect/formats/dump_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "graph/groups.h"
#include "graph/operation_fields.h"

namespace weft {
namespace {

using nlohmann::json;

json fields_of(const Operation& operation) {
  json fields = json::object();
  for_each_field(operation, [&](std::string_view name, auto value) {
    json& field = fields[std::string(name)];
    if constexpr (std::is_enum_v<decltype(value)>) {
      field = weft::to_string(value);
    } else if constexpr (std::is_same_v<decltype(value), float>) {
      // The shortest decimal that reads back as this float: 1e-05, not its double expansion.
      field = json::parse(fmt::format("{}", value));
    } else {
      field = value;
    }
  });
  return fields;
}

json to_json(const Tensor& tensor, std::size_t id) {
  return {{"id", id},
          {"name", tensor.name},
          {"dtype", weft::to_string(tensor.dtype)},
          {"role", weft::to_string(tensor.role)},
          {"shape", tensor.shape}};
}

json to_json(const Task& task, std::size_t id) {
  json accesses = json::array();
  for (const Access& access : task.accesses) {
    accesses.push_back({{"tensor", access.view.tensor.value},
                        {"mode", weft::to_string(access.mode)},
                        {"offset", access.view.offset},
                        {"rows", access.view.rows},
                        {"cols", access.view.cols},
                        {"row_stride", access.view.row_stride}});
  }
  return {{"id", id},
          {"name", task.name},
          {"kind", kind_name(task.operation)},
          {"operation", fields_of(task.operation)},
          {"accesses", accesses},
          {"layer", task.layer},
          {"micro_batch", task.micro_batch},
          {"phase", weft::to_string(task.phase)}};
}

json to_json(const Edge& edge, std::size_t) {
  return {{"from", edge.from.value},
          {"to", edge.to.value},
          {"kind", edge.kind == EdgeKind::completes_before ? "completes_before" : "issued_before"},
          {"reason", weft::to_string(edge.reason)},
          {"distance", edge.distance},
          {"tensor", edge.tensor.valid() ? json(edge.tensor.value) : json(nullptr)}};
}

json to_json(const Grid& grid) {
  json json = {{"order", json::array()}};
  for (const Axis axis : kAxes) json[std::string(to_string(axis))] = grid.on(axis);
  for (const Axis axis : grid.order) json["order"].push_back(to_string(axis));
  return json;
}

json groups_to_json(const Graph& graph, const Grid& grid) {
  json groups = json::object();
  for (const Task& task : graph.tasks()) {
    const Channel* channel = channel_of(task.operation);
    if (channel == nullptr || groups.contains(to_string(*channel))) continue;
    groups[std::string(to_string(*channel))] = groups_of(grid, *channel);
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

std::string dump_json(const Graph& graph, const std::optional<Grid>& grid) {
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

}  // namespace weft
