#include "inspect/formats/dump_json.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/text/json_object.h"
#include "graph/grid.h"
#include "graph/operation.h"

namespace weft::inspect {
namespace {

JsonValue fields_of(const graph::Operation& operation) {
  std::map<std::string, JsonValue> fields;  // sorted by name
  graph::for_each_field(operation, [&](std::string_view name, auto value) {
    const auto json = [&]() -> JsonValue {
      if constexpr (std::is_enum_v<decltype(value)>) {
        return to_string(value);
      } else if constexpr (std::is_same_v<decltype(value), float>) {
        // The shortest decimal that reads back as this float: 1e-05, not its double expansion.
        return JsonValue::written(fmt::format("{}", value));
      } else {
        return value;
      }
    };
    fields.emplace(name, json());
  });
  return fields;
}

JsonObject to_json(const graph::Tensor& tensor, std::size_t id) {
  return JsonObject()
      .add("dtype", weft::to_string(tensor.dtype))
      .add("id", id)
      .add("name", tensor.name)
      .add("role", weft::graph::to_string(tensor.role))
      .add("shape", tensor.shape);
}

JsonObject to_json(const graph::Task& task, std::size_t id) {
  JsonArray accesses;
  for (const graph::Access& access : task.accesses) {
    accesses.add(JsonObject()
                     .add("cols", access.view.cols)
                     .add("mode", weft::graph::to_string(access.mode))
                     .add("offset", access.view.offset)
                     .add("row_stride", access.view.row_stride)
                     .add("rows", access.view.rows)
                     .add("tensor", access.view.tensor.value));
  }
  return JsonObject()
      .add("accesses", accesses)
      .add("id", id)
      .add("kind", graph::kind_name(task.operation))
      .add("layer", task.layer)
      .add("micro_batch", task.micro_batch)
      .add("name", task.name)
      .add("operation", fields_of(task.operation))
      .add("phase", weft::graph::to_string(task.phase));
}

JsonObject to_json(const graph::Edge& edge, std::size_t) {
  return JsonObject()
      .add("distance", edge.distance)
      .add("from", edge.from.value)
      .add("kind", weft::graph::to_string(edge.kind))
      .add("reason", weft::graph::to_string(edge.reason))
      .add("tensor", edge.tensor.valid() ? JsonValue(edge.tensor.value) : nullptr)
      .add("to", edge.to.value);
}

JsonValue to_json(const graph::Grid& grid) {
  std::map<std::string, JsonValue> json;  // sorted by name
  for (const graph::Axis axis : graph::kAxes) json.emplace(graph::to_string(axis), grid.on(axis));
  if (grid.pipe > 1) json.emplace("pipe", grid.pipe);
  if (grid.context > 1) json.emplace("context", grid.context);
  if (grid.expert > 1) json.emplace("expert", grid.expert);
  JsonArray order;
  for (const graph::Axis axis : grid.order) order.add(graph::to_string(axis));
  json.emplace("order", order);
  return json;
}

JsonValue groups_to_json(const graph::Graph& graph, const graph::Grid& grid) {
  std::map<std::string, JsonValue> groups;  // sorted by name
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr || graph.channel_info(*channel) != nullptr ||
        groups.contains(std::string(graph::to_string(*channel))))
      continue;
    groups.emplace(graph::to_string(*channel), graph::groups_of(grid, *channel));
  }
  return groups;
}

template <class Items>
void append_array(std::string& out, std::string_view key, const Items& items) {
  out += fmt::format(",\n\"{}\":[", key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    out += to_json(items[i], i).text();
  }
  out += items.empty() ? "]" : "\n]";
}

}  // namespace

std::string dump_json(const graph::Graph& graph, const std::optional<graph::Grid>& grid) {
  std::string out =
      fmt::format("{{\"format\":\"weft.graph\",\"version\":1,\"fingerprint\":\"{:#018x}\"", graph.fingerprint());
  if (grid)
    out += fmt::format(",\n\"grid\":{},\n\"groups\":{}", to_json(*grid).text(), groups_to_json(graph, *grid).text());
  append_array(out, "tensors", graph.tensors());
  append_array(out, "tasks", graph.tasks());
  append_array(out, "edges", graph.edges());
  out += "\n}\n";
  return out;
}

}  // namespace weft::inspect
