#include "runtime/policy/python/problem_columns.h"

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace weft::policy {
namespace {

/// The columns of one table, whose rows are structs of C.
template <class Row>
class TableColumns {
 public:
  TableColumns(std::vector<Column>& columns, std::string_view table, std::span<const Row> rows)
      : columns_(columns), table_(table), rows_(rows) {}

  template <class Field>
  TableColumns& add(std::string_view name, Field Row::*field) {
    using Value = std::conditional_t<std::is_same_v<Field, const char*>, std::string, Field>;
    std::vector<Value> values;
    values.reserve(rows_.size());
    for (const Row& row : rows_) values.emplace_back(row.*field);
    columns_.push_back({table_, name, std::move(values)});
    return *this;
  }

 private:
  std::vector<Column>& columns_;
  std::string_view table_;
  std::span<const Row> rows_;
};

template <class Row>
TableColumns<Row> table(std::vector<Column>& columns, std::string_view name, const Row* rows, std::uint64_t count) {
  return {columns, name, std::span(rows, static_cast<std::size_t>(count))};
}

}  // namespace

std::vector<Column> columns_of(const JoinedProblem& joined) {
  const weft2_problem& problem = joined.problem();
  const weft2_class& graph = problem.classes[0];
  std::vector<Column> columns;
  table(columns, "tasks", graph.tasks, graph.task_count)
      .add("name", &weft2_task::name)
      .add("kind", &weft2_task::kind)
      .add("phase", &weft2_task::phase)
      .add("layer", &weft2_task::layer)
      .add("micro_batch", &weft2_task::micro_batch)
      .add("channel", &weft2_task::channel)
      .add("access_begin", &weft2_task::access_begin)
      .add("access_count", &weft2_task::access_count)
      .add("cost_ns", &weft2_task::cost_ns)
      .add("beside_ns", &weft2_task::beside_ns)
      .add("cpu_ns", &weft2_task::cpu_ns)
      .add("flops", &weft2_task::flops)
      .add("bytes", &weft2_task::bytes)
      .add("network_bytes", &weft2_task::network_bytes)
      .add("peer_task", &weft2_task::peer_task);
  const auto classes = [](std::span<const std::uint32_t> of) { return std::vector(of.begin(), of.end()); };
  columns.push_back({"tasks", "meeting", std::vector(graph.meetings, graph.meetings + graph.task_count)});
  columns.push_back({"tasks", "of_class", classes(joined.class_of_task())});
  table(columns, "accesses", graph.accesses, graph.access_count)
      .add("tensor", &weft2_access::tensor)
      .add("mode", &weft2_access::mode)
      .add("bytes", &weft2_access::bytes);
  table(columns, "tensors", graph.tensors, graph.tensor_count)
      .add("name", &weft2_tensor::name)
      .add("role", &weft2_tensor::role)
      .add("outlives", &weft2_tensor::outlives)
      .add("bytes", &weft2_tensor::bytes)
      .add("first", &weft2_tensor::first)
      .add("last", &weft2_tensor::last);
  table(columns, "edges", graph.edges, graph.edge_count)
      .add("source", &weft2_edge::from)
      .add("target", &weft2_edge::to)
      .add("issued_before", &weft2_edge::issued_before)
      .add("distance", &weft2_edge::distance);
  table(columns, "streams", graph.streams, graph.stream_count)
      .add("name", &weft2_stream::name)
      .add("channel", &weft2_stream::channel);
  columns.push_back({"streams", "of_class", classes(joined.class_of_stream())});
  table(columns, "channels", problem.channels, problem.channel_count)
      .add("name", &weft2_channel::name)
      .add("group_size", &weft2_channel::group_size)
      .add("link", &weft2_channel::link);
  table(columns, "links", problem.links, problem.link_count)
      .add("name", &weft2_link::name)
      .add("bytes_per_ns", &weft2_link::bytes_per_ns)
      .add("latency_ns", &weft2_link::latency_ns);
  table(columns, "slowdowns", problem.slowdowns, problem.slowdown_count)
      .add("compute_kind", &weft2_slowdown::compute_kind)
      .add("collective_kind", &weft2_slowdown::collective_kind)
      .add("factor", &weft2_slowdown::factor);
  return columns;
}

}  // namespace weft::policy
