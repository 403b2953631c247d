#include "runtime/policy/python/joined_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "runtime/policy/library/policy_library.h"

namespace weft::policy {
namespace {

/// The columns of one table, whose rows are structs of C, by class.
template <class Row>
class TableColumns {
 public:
  TableColumns(std::vector<Column>& columns, std::string_view table, std::vector<std::span<const Row>> rows)
      : columns_(columns), table_(table), rows_(std::move(rows)) {}

  /// The values value(class, row).
  template <class Function>
  TableColumns& add_each(std::string_view name, const Function& value) {
    using Value = std::decay_t<decltype(value(std::size_t{0}, std::declval<const Row&>()))>;
    std::vector<std::conditional_t<std::is_same_v<Value, const char*>, std::string, Value>> values;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      for (const Row& row : rows_[k]) values.emplace_back(value(k, row));
    }
    columns_.push_back({table_, name, std::move(values)});
    return *this;
  }
  template <class Field>
  TableColumns& add(std::string_view name, Field field) {
    return add_each(name, [&](std::size_t, const Row& row) { return std::invoke(field, row); });
  }
  /// Indices into another table, in which each class's rows begin at its offset.
  template <class Field>
  TableColumns& add(std::string_view name, Field field, std::span<const std::uint32_t> offsets) {
    return add_each(name, [&](std::size_t k, const Row& row) {
      const std::uint32_t index = std::invoke(field, row);
      return index == WEFT2_NONE ? index : index + offsets[k];
    });
  }

 private:
  std::vector<Column>& columns_;
  std::string_view table_;
  std::vector<std::span<const Row>> rows_;
};

weft2_order described(std::vector<std::uint32_t>& sequence, std::vector<std::uint32_t>& streams,
                      std::span<const weft2_added_edge> edges) {
  return {.size = sizeof(weft2_order),
          .sequence = sequence.data(),
          .streams = streams.data(),
          .reasons = nullptr,
          .edges = edges.data(),
          .edge_count = edges.size()};
}

}  // namespace

JoinedProblem::JoinedProblem(const std::string& path, const weft2_problem& problem, const weft2_host& host)
    : path_(path), problem_(problem), host_(host) {
  const auto add_up = [&](std::vector<std::uint32_t>& first, std::uint64_t weft2_class::*count) {
    first = {0};
    for (const weft2_class& one : classes()) first.push_back(first.back() + static_cast<std::uint32_t>(one.*count));
  };
  add_up(first_task_, &weft2_class::task_count);
  add_up(first_tensor_, &weft2_class::tensor_count);
  add_up(first_access_, &weft2_class::access_count);
  add_up(first_stream_, &weft2_class::stream_count);
}

std::int64_t JoinedProblem::memory_limit() const {
  std::int64_t least = 0;
  for (const weft2_class& one : classes()) {
    if (one.memory_limit > 0 && (least == 0 || one.memory_limit < least)) least = one.memory_limit;
  }
  return least;
}

std::vector<Column> JoinedProblem::columns() const {
  std::vector<Column> columns;
  const auto table = [&]<class Row>(std::string_view name, const Row* weft2_class::*rows,
                                    std::uint64_t weft2_class::*count) {
    std::vector<std::span<const Row>> all;
    for (const weft2_class& one : classes()) all.emplace_back(one.*rows, one.*count);
    return TableColumns<Row>(columns, name, std::move(all));
  };
  const auto of_problem = [&]<class Row>(std::string_view name, const Row* rows, std::uint64_t count) {
    return TableColumns<Row>(columns, name, {std::span(rows, count)});
  };
  const auto of_class = [](std::size_t k, const auto&) { return static_cast<std::uint32_t>(k); };
  const auto peer = [&](std::size_t, const weft2_task& task) {
    return task.peer_class == WEFT2_NONE ? WEFT2_NONE : task.peer_task + first_task_[task.peer_class];
  };
  table("tasks", &weft2_class::tasks, &weft2_class::task_count)
      .add("name", &weft2_task::name)
      .add("kind", &weft2_task::kind)
      .add("phase", &weft2_task::phase)
      .add("layer", &weft2_task::layer)
      .add("micro_batch", &weft2_task::micro_batch)
      .add("channel", &weft2_task::channel)
      .add("access_begin", &weft2_task::access_begin, first_access_)
      .add("access_count", &weft2_task::access_count)
      .add("cost_ns", &weft2_task::cost_ns)
      .add("beside_ns", &weft2_task::beside_ns)
      .add("cpu_ns", &weft2_task::cpu_ns)
      .add("flops", &weft2_task::flops)
      .add("bytes", &weft2_task::bytes)
      .add("network_bytes", &weft2_task::network_bytes)
      .add_each("peer_task", peer)
      .add_each("of_class", of_class);
  table("tasks", &weft2_class::meetings, &weft2_class::task_count).add("meeting", std::identity());
  table("accesses", &weft2_class::accesses, &weft2_class::access_count)
      .add("tensor", &weft2_access::tensor, first_tensor_)
      .add("mode", &weft2_access::mode)
      .add("bytes", &weft2_access::bytes);
  table("tensors", &weft2_class::tensors, &weft2_class::tensor_count)
      .add("name", &weft2_tensor::name)
      .add("role", &weft2_tensor::role)
      .add("outlives", &weft2_tensor::outlives)
      .add("bytes", &weft2_tensor::bytes)
      .add("first", &weft2_tensor::first, first_task_)
      .add("last", &weft2_tensor::last, first_task_);
  table("edges", &weft2_class::edges, &weft2_class::edge_count)
      .add("source", &weft2_edge::from, first_task_)
      .add("target", &weft2_edge::to, first_task_)
      .add("issued_before", &weft2_edge::issued_before)
      .add("distance", &weft2_edge::distance);
  table("streams", &weft2_class::streams, &weft2_class::stream_count)
      .add("name", &weft2_stream::name)
      .add("channel", &weft2_stream::channel)
      .add_each("of_class", of_class);
  of_problem("channels", problem_.channels, problem_.channel_count)
      .add("name", &weft2_channel::name)
      .add("group_size", &weft2_channel::group_size)
      .add("link", &weft2_channel::link);
  of_problem("links", problem_.links, problem_.link_count)
      .add("name", &weft2_link::name)
      .add("bytes_per_ns", &weft2_link::bytes_per_ns)
      .add("latency_ns", &weft2_link::latency_ns);
  of_problem("slowdowns", problem_.slowdowns, problem_.slowdown_count)
      .add("compute_kind", &weft2_slowdown::compute_kind)
      .add("collective_kind", &weft2_slowdown::collective_kind)
      .add("factor", &weft2_slowdown::factor);
  return columns;
}

std::size_t JoinedProblem::class_of(std::uint32_t task) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_task_, task) - first_task_.begin()) - 1;
}

std::vector<JoinedProblem::Part> JoinedProblem::parts_of(const JoinedOrder& all) const {
  std::vector<Part> parts(classes().size());
  const bool several = parts.size() > 1;
  for (std::size_t i = 0; i < tasks(); ++i) {
    const std::uint32_t task = all.sequence[i], stream = all.streams[i];
    const std::size_t k = class_of(task);
    if (k == parts.size()) {
      refuse_library(path_,
                     task == kUnsetEntry
                         ? fmt::format("sequence[{}] of {} is not filled", i, tasks())
                         : fmt::format("sequence[{}] = {} isn't an index of the {} tasks", i, task, tasks()),
                     "put every task in the sequence once");
    }
    if (stream < first_stream_[k] || stream >= first_stream_[k + 1]) {
      const char* const name = classes()[k].tasks[task - first_task_[k]].name;
      refuse_library(path_, fmt::format("streams[{}] = {} can't run task '{}'", i, stream, name),
                     fmt::format("give it one of the streams {} to {}{}", first_stream_[k], first_stream_[k + 1] - 1,
                                 several ? " of its class" : ""));
    }
    parts[k].sequence.push_back(task - first_task_[k]);
    parts[k].streams.push_back(stream - first_stream_[k]);
    parts[k].reasons.push_back(all.reasons.empty() ? 0 : all.reasons[i]);
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].sequence.size() == classes()[k].task_count) continue;
    refuse_library(path_,
                   fmt::format("the sequence has {} of the {} tasks of class {}", parts[k].sequence.size(),
                               classes()[k].task_count, k),
                   "put every task in the sequence once");
  }
  for (const weft2_added_edge& edge : all.edges) {
    const std::size_t k = class_of(edge.from);
    if (k == parts.size() || class_of(edge.to) != k) {
      refuse_library(
          path_,
          fmt::format("its edge from task {} to task {} leads to no task{}", edge.from, edge.to,
                      several ? " of the same class" : ""),
          several ? "add edges between tasks of one class: messages hold between classes" : "add edges between tasks");
    }
    parts[k].edges.push_back({edge.from - first_task_[k], edge.to - first_task_[k], edge.issued_before, edge.distance});
  }
  return parts;
}

void JoinedProblem::divide(const JoinedOrder& all, weft2_order* orders) {
  divided_ = parts_of(all);
  for (std::size_t k = 0; k < divided_.size(); ++k) {
    std::ranges::copy(divided_[k].sequence, orders[k].sequence);
    std::ranges::copy(divided_[k].streams, orders[k].streams);
    std::ranges::copy(divided_[k].reasons, orders[k].reasons);
    orders[k].edges = divided_[k].edges.data();
    orders[k].edge_count = divided_[k].edges.size();
  }
}

void JoinedProblem::expect(std::int32_t failed) const {
  if (failed != 0) throw std::runtime_error(host_.error(host_.context));
}

double JoinedProblem::simulate(const JoinedOrder& all, double* begin_ns, double* end_ns,
                               std::int64_t* scratch_bytes) const {
  std::vector<Part> parts = parts_of(all);
  std::vector<weft2_order> orders;
  for (Part& part : parts) orders.push_back(described(part.sequence, part.streams, part.edges));
  std::vector<std::int64_t> scratch(parts.size());
  weft2_simulation result = {.size = sizeof(weft2_simulation),
                             .step_ns = 0,
                             .begin_ns = begin_ns,
                             .end_ns = end_ns,
                             .scratch_bytes = scratch_bytes == nullptr ? nullptr : scratch.data()};
  expect(host_.simulate(host_.context, orders.data(), &result));
  if (scratch_bytes != nullptr) *scratch_bytes = *std::ranges::max_element(scratch);
  return result.step_ns;
}

void JoinedProblem::schedule(const double* priorities, std::span<std::uint32_t> sequence,
                             std::span<std::uint32_t> streams) const {
  std::vector<Part> parts(classes().size());
  std::vector<weft2_order> orders;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    parts[k].sequence.resize(classes()[k].task_count);
    parts[k].streams.resize(classes()[k].task_count);
    orders.push_back(described(parts[k].sequence, parts[k].streams, {}));
  }
  expect(host_.schedule(host_.context, priorities, orders.data(), nullptr));
  std::size_t at = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (std::size_t i = 0; i < parts[k].sequence.size(); ++i, ++at) {
      sequence[at] = parts[k].sequence[i] + first_task_[k];
      streams[at] = parts[k].streams[i] + first_stream_[k];
    }
  }
}

}  // namespace weft::policy
