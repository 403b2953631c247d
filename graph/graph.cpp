#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "base/assertions.h"
#include "base/hash.h"

namespace weft::graph {

std::string_view to_string(Phase phase) {
  static constexpr auto kNames = std::to_array<std::string_view>({"forward", "backward", "update"});
  return kNames.at(static_cast<std::size_t>(phase));
}

std::string_view to_string(EdgeKind kind) {
  return kind == EdgeKind::completes_before ? "completes_before" : "issued_before";
}

std::string_view to_string(EdgeReason reason) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"read after write", "write after read", "write after write", "memory reuse",
                                       "policy", "given", "recorded order"});
  static_assert(kNames.size() == static_cast<std::size_t>(EdgeReason::recorded_order) + 1);
  return kNames.at(static_cast<std::size_t>(reason));
}

std::span<const Edge> Graph::in_edges(TaskId id) const {
  const std::uint32_t begin = in_begin_[id.index()];
  return std::span(edges_).subspan(begin, in_begin_[id.index() + 1] - begin);
}

std::span<const Edge> Graph::out_edges(TaskId id) const {
  const std::uint32_t begin = out_begin_[id.index()];
  return std::span(out_).subspan(begin, out_begin_[id.index() + 1] - begin);
}

TaskId Graph::find_task(std::string_view name) const {
  const auto found = task_by_name_.find(std::string(name));
  return found == task_by_name_.end() ? TaskId() : found->second;
}

TensorId Graph::find_tensor(std::string_view name) const {
  const auto found = tensor_by_name_.find(std::string(name));
  return found == tensor_by_name_.end() ? TensorId() : found->second;
}

const ChannelInfo* Graph::channel_info(Channel channel) const {
  const auto found = std::ranges::find(channels_, channel, &ChannelInfo::channel);
  return found == channels_.end() ? nullptr : &*found;
}

std::string_view Graph::channel_name(Channel channel) const {
  const ChannelInfo* info = channel_info(channel);
  return info == nullptr ? to_string(channel) : info->name;
}

bool Graph::is_local(Channel channel) const {
  const ChannelInfo* info = channel_info(channel);
  return info != nullptr && info->local;
}

Direction Graph::direction(Channel channel) const {
  if (const ChannelInfo* info = channel_info(channel)) return info->direction;
  if (!is_message(channel)) return Direction::both;
  return channel == Channel::send_next || channel == Channel::send_previous ? Direction::out : Direction::in;
}

std::size_t Graph::channel_count() const {
  std::size_t count = kAxisChannels;
  for (const ChannelInfo& info : channels_) count = std::max(count, static_cast<std::size_t>(info.channel) + 1);
  return count;
}

namespace {

using Elements = ArgumentElements;

// Checks the accesses of one task against the present rows of its schema.
class ArgumentCheck {
 public:
  ArgumentCheck(const Task& task, std::span<const Tensor> tensors) : task_(task), tensors_(tensors) {}

  void run(std::span<const ArgumentSchema> schema) {
    for (const ArgumentSchema& row : schema) {
      if (row.present) rows_.push_back(&row);
    }
    const std::size_t found = task_.accesses.size();
    if (found < rows_.size()) refuse(rows_[found]->name, "missing", fmt::format("the arguments {}", names()));
    if (found > rows_.size()) {
      throw std::logic_error(fmt::format("{}: {} accesses, expected {}: {}", subject(), found, rows_.size(), names()));
    }
    for (std::size_t i = 0; i < found; ++i) check(*rows_[i], task_.accesses[i]);
  }

  std::string subject() const { return fmt::format("task '{}' ({})", task_.name, kind_name(task_.operation)); }

 private:
  [[noreturn]] void refuse(std::string_view argument, const std::string& found, const std::string& expected) const {
    throw std::logic_error(fmt::format("{}: argument {} is {}, expected {}", subject(), argument, found, expected));
  }

  std::string names() const {
    std::string text;
    for (const ArgumentSchema* row : rows_) text += fmt::format("{}{}", text.empty() ? "" : ", ", row->name);
    return text;
  }

  DType dtype_of(const Access& access) const { return tensors_[access.view.tensor.index()].dtype; }

  void check(const ArgumentSchema& row, const Access& access) const {
    if (!row.allows(access.mode)) {
      refuse(row.name, fmt::format("declared as {}", to_string(access.mode)), std::string(to_string(row.mode)));
    }
    const View& view = access.view;
    if (!seen_as(row.shape, view.rows, view.cols, view.contiguous())) {
      refuse(row.name, fmt::format("{} x {}{}", view.rows, view.cols, view.contiguous() ? "" : " in rows apart"),
             to_string(row.shape));
    }
    check_dtype(row, dtype_of(access));
  }

  void check_dtype(const ArgumentSchema& row, DType found) const {
    const Elements& rule = row.elements;
    if (rule.f32_too && found == DType::f32) return;
    switch (rule.rule) {
      case Elements::Rule::any:
        return;
      case Elements::Rule::floats:
        if (found == DType::f32 || found == DType::bf16) return;
        return refuse(row.name, std::string(to_string(found)), "f32 or bf16");
      case Elements::Rule::one_dtype:
        if (found == rule.dtype) return;
        return refuse(row.name, std::string(to_string(found)), std::string(to_string(rule.dtype)));
      case Elements::Rule::same_as:
        break;
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i]->name != rule.other) continue;
      const DType wanted = dtype_of(task_.accesses[i]);
      if (found == wanted) return;
      refuse(row.name, std::string(to_string(found)),
             fmt::format("{} as {}{}", to_string(wanted), rule.other, rule.f32_too ? ", or f32" : ""));
    }
    throw std::logic_error(fmt::format("{}: the schema of {} names no argument {}", subject(), row.name, rule.other));
  }

  const Task& task_;
  std::span<const Tensor> tensors_;
  std::vector<const ArgumentSchema*> rows_;
};

/// Compares the task's accesses with its operation's schema: their number, modes, shapes and dtypes. Throws
/// std::logic_error at the first difference; the message names the argument, the value found and the value expected.
/// `tensors` are all tensors of the graph.
void check_arguments(const Task& task, std::span<const Tensor> tensors) {
  ArgumentCheck check(task, tensors);
  if (const std::string_view wrong = contradiction_in(task.operation); !wrong.empty()) {
    throw std::logic_error(fmt::format("{}: {}", check.subject(), wrong));
  }
  with_arguments(task.operation, [&](std::span<const ArgumentSchema> schema) { check.run(schema); });
}

}  // namespace

TensorId GraphBuilder::add_tensor(Tensor tensor) {
  const TensorId id(graph_.tensors_.size());
  if (!graph_.tensor_by_name_.emplace(tensor.name, id).second) {
    throw std::logic_error(fmt::format("tensor '{}' is declared twice", tensor.name));
  }
  graph_.tensors_.push_back(std::move(tensor));
  return id;
}

TaskId GraphBuilder::add_task(Task task) {
  for (const Access& access : task.accesses) {
    const View& view = access.view;
    if (!view.tensor.valid() || view.tensor.index() >= graph_.tensors_.size()) {
      throw std::logic_error(fmt::format("task '{}' accesses a tensor that doesn't exist", task.name));
    }
    const Tensor& accessed = tensor(view.tensor);
    if (view.offset < 0 || view.rows < 0 || view.cols < 0 || view.end() > accessed.elements()) {
      throw std::logic_error(fmt::format("task '{}' looks past the end of tensor '{}' ({} of {} elements)", task.name,
                                         accessed.name, view.end(), accessed.elements()));
    }
  }
  if (graph_.arguments_ == Arguments::of_schema) check_arguments(task, graph_.tensors_);
  const TaskId id(graph_.tasks_.size());
  if (!graph_.task_by_name_.emplace(task.name, id).second) {
    throw std::logic_error(fmt::format("two tasks are named '{}'", task.name));
  }
  for (const TaskBefore& before : task.after) {
    if (before.task < id) continue;
    throw std::logic_error(fmt::format("task '{}' is after a task that comes later", task.name));
  }
  if (std::holds_alternative<Opaque>(task.operation)) graph_.has_opaque_tasks_ = true;
  graph_.tasks_.push_back(std::move(task));
  return id;
}

namespace {

/// Why an access of the same elements has to wait for an earlier one; nothing if both only read.
std::optional<EdgeReason> hazard_between(bool earlier_writes, AccessMode later) {
  if (!earlier_writes) return later == AccessMode::read ? std::nullopt : std::optional(EdgeReason::write_after_read);
  return later == AccessMode::write ? EdgeReason::write_after_write : EdgeReason::read_after_write;
}

// An access of a tensor that later accesses must be ordered after: no later write has covered it.
struct Record {
  View view;
  TaskId task;
  bool writes = false;
  bool previous_step = false;
};

// Walks the tasks in program order and finds the earlier accesses of a tensor that each access must wait for.
class HazardFinder {
 public:
  explicit HazardFinder(std::size_t tensors) : records_(tensors) {}

  /// From now on, everything recorded so far belongs to the previous step.
  void next_step() {
    for (auto& records : records_) {
      for (Record& record : records) record.previous_step = true;
    }
  }

  bool written(const View& view) const {
    const auto& records = records_[view.tensor.index()];
    return std::any_of(records.begin(), records.end(),
                       [&](const Record& record) { return record.writes && overlaps(record.view, view); });
  }

  void visit(TaskId id, const Access& access, std::vector<Edge>& edges) const {
    for (const Record& record : records_[access.view.tensor.index()]) {
      const std::optional<EdgeReason> hazard = hazard_between(record.writes, access.mode);
      if (record.task == id || !hazard || !overlaps(record.view, access.view)) continue;
      edges.push_back({record.task, id, EdgeKind::completes_before, *hazard,
                       static_cast<std::uint8_t>(record.previous_step ? 1 : 0), access.view.tensor});
    }
  }

  void record(TaskId id, const Access& access) {
    auto& records = records_[access.view.tensor.index()];
    const bool writes = access.mode != AccessMode::read;
    if (writes) {
      // A later access of these elements is ordered after this write, and this write after the earlier accesses; so
      // their records can go. A record of this same task from the previous step goes too: a task is always ordered
      // after its own previous execution.
      std::erase_if(records, [&](const Record& record) {
        return (record.task != id || record.previous_step) && covers(access.view, record.view);
      });
    }
    records.push_back({access.view, id, writes, false});
  }

 private:
  std::vector<std::vector<Record>> records_;
};

/// Gives an edge that was given the reason and the tensor that the accesses of its ends have in common, if any.
void explain_given(Edge& edge, const std::vector<Access>& before, const std::vector<Access>& after) {
  for (const Access& first : before) {
    for (const Access& second : after) {
      const std::optional<EdgeReason> hazard = hazard_between(first.mode != AccessMode::read, second.mode);
      if (first.view.tensor != second.view.tensor || !hazard || *hazard >= edge.reason) continue;
      edge.reason = *hazard;
      edge.tensor = first.view.tensor;
    }
  }
}

std::uint64_t fingerprint_of(const std::vector<Tensor>& tensors, const std::vector<Task>& tasks,
                             const std::vector<ChannelInfo>& channels) {
  Fingerprint hash;
  for (const Tensor& tensor : tensors) {
    hash.add(tensor.name).add(static_cast<int>(tensor.dtype)).add(static_cast<int>(tensor.role));
    hash.add(tensor.shape.size());
    for (std::int64_t extent : tensor.shape) hash.add(extent);
  }
  for (const Task& task : tasks) {
    hash.add(task.name).add(task.layer).add(task.micro_batch).add(static_cast<int>(task.phase));
    hash.add(kind_name(task.operation));
    for_each_field(task.operation, [&](std::string_view, auto value) {
      if constexpr (std::is_enum_v<decltype(value)>) {
        hash.add(static_cast<int>(value));
      } else {
        hash.add(value);
      }
    });
    for (const Access& access : task.accesses) {
      const View& view = access.view;
      hash.add(view.tensor.value).add(view.offset).add(view.rows).add(view.cols).add(view.row_stride);
      hash.add(static_cast<int>(access.mode));
    }
    if (const auto* opaque = std::get_if<Opaque>(&task.operation)) {
      hash.add(opaque->queued).add(opaque->local).add(static_cast<int>(fingerprint_number(opaque->queue)));
      if (opaque->meeting >= 0) hash.add(opaque->meeting);
    }
    for (const TaskBefore& before : task.after) hash.add(before.task.value).add(before.only_issued);
  }
  for (const ChannelInfo& info : channels) {
    hash.add(static_cast<int>(fingerprint_number(info.channel))).add(info.name).add(info.group_size).add(info.local);
  }
  return hash.value();
}

}  // namespace

void GraphBuilder::find_conflicts(std::vector<Edge>& edges) const {
  HazardFinder finder(graph_.tensors_.size());
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < graph_.tasks_.size(); ++i) {
      const Task& task = graph_.tasks_[i];
      for (const Access& access : task.accesses) {
        const Tensor& tensor = graph_.tensor(access.view.tensor);
        // Scratch bytes begin anew in each step; the memory planner protects them across steps.
        if (step == 1 && !is_state(tensor.role)) continue;
        if (access.mode != AccessMode::write && !is_state(tensor.role) && access.view.elements() > 0 &&
            !finder.written(access.view)) {
          throw std::logic_error(
              fmt::format("task '{}' reads '{}', which no earlier task wrote", task.name, tensor.name));
        }
        finder.visit(TaskId(i), access, edges);
      }
      for (const Access& access : task.accesses) {
        if (step == 0 || is_state(graph_.tensor(access.view.tensor).role)) finder.record(TaskId(i), access);
      }
    }
    if (step == 0) finder.next_step();
  }
}

void GraphBuilder::add_given_edges(std::vector<Edge>& edges) const {
  for (std::size_t i = 0; i < graph_.tasks_.size(); ++i) {
    for (const TaskBefore& before : graph_.tasks_[i].after) {
      const EdgeKind kind = before.only_issued ? EdgeKind::issued_before : EdgeKind::completes_before;
      Edge edge{before.task, TaskId(i), kind, before.only_order ? EdgeReason::recorded_order : EdgeReason::given,
                0,           TensorId()};
      explain_given(edge, graph_.task(before.task).accesses, graph_.tasks_[i].accesses);
      edges.push_back(edge);
    }
  }
}

Graph GraphBuilder::build() && {
  std::vector<Edge> edges;
  if (graph_.conflicts_ == Conflicts::ordered) find_conflicts(edges);
  add_given_edges(edges);
  // The second pass repeats the edges within a step. Keep one edge for each (to, from, distance): the strongest, with
  // the strongest reason.
  const auto key = [](const Edge& edge) {
    return std::tuple(edge.to, edge.from, edge.distance, edge.kind, edge.reason);
  };
  std::sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
  edges.erase(std::unique(edges.begin(), edges.end(),
                          [](const Edge& a, const Edge& b) {
                            return a.to == b.to && a.from == b.from && a.distance == b.distance;
                          }),
              edges.end());
  edges.shrink_to_fit();
  assert_that("every edge within a step leads to a later task", [&] {
    return std::ranges::all_of(edges, [](const Edge& e) { return e.distance > 0 || e.from < e.to; });
  });

  const std::size_t count = graph_.tasks_.size();
  graph_.in_begin_.assign(count + 1, 0);
  graph_.out_begin_.assign(count + 1, 0);
  for (const Edge& edge : edges) {
    ++graph_.in_begin_[edge.to.index() + 1];
    ++graph_.out_begin_[edge.from.index() + 1];
  }
  for (std::size_t i = 0; i < count; ++i) {
    graph_.in_begin_[i + 1] += graph_.in_begin_[i];
    graph_.out_begin_[i + 1] += graph_.out_begin_[i];
  }
  graph_.out_.resize(edges.size());
  std::vector<std::uint32_t> next(graph_.out_begin_.begin(), graph_.out_begin_.end() - 1);
  for (const Edge& edge : edges) graph_.out_[next[edge.from.index()]++] = edge;
  graph_.edges_ = std::move(edges);
  graph_.fingerprint_ = fingerprint_of(graph_.tensors_, graph_.tasks_, graph_.channels_);
  return std::move(graph_);
}

View whole(const GraphBuilder& builder, TensorId id) {
  const Tensor& tensor = builder.tensor(id);
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  const std::int64_t rows = cols == 0 ? 0 : tensor.elements() / cols;
  return {id, 0, rows, cols, cols};
}

}  // namespace weft::graph
