#include "runtime/policy/library/joined_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "runtime/policy/library/library_answer.h"

namespace weft::policy {
namespace {

std::uint32_t moved(std::uint32_t index, std::uint32_t by) {
  return index == WEFT2_NONE ? index : index + by;
}

JoinedProblem& joined_of(void* context) {
  return *static_cast<JoinedProblem*>(context);
}

}  // namespace

JoinedProblem::JoinedProblem(const std::string& path, const weft2_problem& problem, const weft2_host& host)
    : path_(path), of_classes_(host), joined_(problem) {
  const std::span<const weft2_class> classes(problem.classes, problem.class_count);
  class_ = classes.front();
  std::uint32_t tasks = 0;
  for (const weft2_class& one : classes) {
    first_task_.push_back(tasks);
    tasks += static_cast<std::uint32_t>(one.task_count);
  }
  first_task_.push_back(tasks);
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const weft2_class& one = classes[k];
    const auto tensors = static_cast<std::uint32_t>(tensors_.size()),
               accesses = static_cast<std::uint32_t>(accesses_.size());
    for (weft2_tensor tensor : std::span(one.tensors, one.tensor_count)) {
      tensor.first = moved(tensor.first, first_task_[k]);
      tensor.last = moved(tensor.last, first_task_[k]);
      tensors_.push_back(tensor);
    }
    for (weft2_access access : std::span(one.accesses, one.access_count)) {
      access.tensor += tensors;
      accesses_.push_back(access);
    }
    for (weft2_task task : std::span(one.tasks, one.task_count)) {
      task.access_begin += accesses;
      if (task.peer_class != WEFT2_NONE) task.peer_task += first_task_[task.peer_class];
      task.peer_class = task.peer_class == WEFT2_NONE ? WEFT2_NONE : 0;
      tasks_.push_back(task);
      class_of_task_.push_back(k);
    }
    meetings_.insert(meetings_.end(), one.meetings, one.meetings + one.task_count);
    for (weft2_edge edge : std::span(one.edges, one.edge_count)) {
      edge.from += first_task_[k];
      edge.to += first_task_[k];
      edges_.push_back(edge);
    }
    first_stream_.push_back(static_cast<std::uint32_t>(streams_.size()));
    for (const weft2_stream& stream : std::span(one.streams, one.stream_count)) {
      streams_.push_back(stream);
      class_of_stream_.push_back(k);
    }
    const bool tighter = one.memory_limit > 0 && (class_.memory_limit == 0 || one.memory_limit < class_.memory_limit);
    if (tighter) class_.memory_limit = one.memory_limit;
  }
  first_stream_.push_back(static_cast<std::uint32_t>(streams_.size()));
  class_.tensors = tensors_.data();
  class_.accesses = accesses_.data();
  class_.tasks = tasks_.data();
  class_.edges = edges_.data();
  class_.streams = streams_.data();
  class_.meetings = meetings_.data();
  class_.tensor_count = tensors_.size();
  class_.access_count = accesses_.size();
  class_.task_count = tasks_.size();
  class_.edge_count = edges_.size();
  class_.stream_count = streams_.size();
  joined_.class_count = 1;
  joined_.classes = &class_;
  host_ = of_classes_;
  if (classes.size() == 1) return;
  host_.context = this;
  host_.simulate = simulate;
  host_.schedule = schedule;
  host_.add_rewrite = [](void* context, const char* text) noexcept {
    const weft2_host& host = joined_of(context).of_classes_;
    return host.add_rewrite(host.context, text);
  };
  host_.add_reason = [](void* context, const char* text, std::uint32_t for_memory) noexcept {
    const weft2_host& host = joined_of(context).of_classes_;
    return host.add_reason(host.context, text, for_memory);
  };
  host_.error = [](void* context) noexcept -> const char* {
    const JoinedProblem& joined = joined_of(context);
    return joined.error_.empty() ? joined.of_classes_.error(joined.of_classes_.context) : joined.error_.c_str();
  };
  host_.fail = [](void* context, const char* message) noexcept {
    const weft2_host& host = joined_of(context).of_classes_;
    host.fail(host.context, message);
  };
}

weft2_order JoinedProblem::Part::described() {
  return {.size = sizeof(weft2_order),
          .sequence = sequence.data(),
          .streams = streams.data(),
          .reasons = reasons.data(),
          .edges = edges.data(),
          .edge_count = edges.size()};
}

std::uint32_t JoinedProblem::class_of(std::uint32_t task) const {
  return task < class_of_task_.size() ? class_of_task_[task] : WEFT2_NONE;
}

std::vector<JoinedProblem::Part> JoinedProblem::divided(const weft2_order& order) const {
  std::vector<Part> parts(first_task_.size() - 1);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const std::uint32_t task = order.sequence[i], k = class_of(task), stream = order.streams[i];
    if (k == WEFT2_NONE) {
      refuse_library(path_,
                     task == kUnsetEntry
                         ? fmt::format("sequence[{}] of {} is not filled", i, tasks_.size())
                         : fmt::format("sequence[{}] = {} isn't an index of the {} tasks", i, task, tasks_.size()),
                     "put every task in the sequence once");
    }
    if (stream < first_stream_[k] || stream >= first_stream_[k + 1]) {
      refuse_library(
          path_, fmt::format("streams[{}] = {} can't run task '{}'", i, stream, tasks_[task].name),
          fmt::format("give it one of the streams {} to {} of its class", first_stream_[k], first_stream_[k + 1] - 1));
    }
    parts[k].sequence.push_back(task - first_task_[k]);
    parts[k].streams.push_back(stream - first_stream_[k]);
    parts[k].reasons.push_back(order.reasons == nullptr ? 0 : order.reasons[i]);
  }
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    if (parts[k].sequence.size() == first_task_[k + 1] - first_task_[k]) continue;
    refuse_library(path_,
                   fmt::format("the sequence has {} of the {} tasks of class {}", parts[k].sequence.size(),
                               first_task_[k + 1] - first_task_[k], k),
                   "put every task in the sequence once");
  }
  for (const weft2_added_edge& edge : std::span(order.edges, order.edge_count)) {
    const std::uint32_t k = class_of(edge.from);
    if (k == WEFT2_NONE || class_of(edge.to) != k) {
      refuse_library(
          path_, fmt::format("its edge from task {} to task {} leads to no task of the same class", edge.from, edge.to),
          "add edges between tasks of one class: messages hold between classes");
    }
    parts[k].edges.push_back({edge.from - first_task_[k], edge.to - first_task_[k], edge.issued_before, edge.distance});
  }
  return parts;
}

void JoinedProblem::order(const std::function<void(weft2_order&)>& function, weft2_order* orders) {
  if (first_task_.size() == 2) return function(*orders);
  Part all;
  all.sequence.resize(tasks_.size(), kUnsetEntry);
  all.streams.resize(tasks_.size(), kUnsetEntry);
  all.reasons.resize(tasks_.size(), 0);
  weft2_order whole = all.described();
  whole.edges = nullptr;
  whole.edge_count = 0;
  function(whole);
  answer_ = divided(whole);
  for (std::size_t k = 0; k < answer_.size(); ++k) {
    std::ranges::copy(answer_[k].sequence, orders[k].sequence);
    std::ranges::copy(answer_[k].streams, orders[k].streams);
    std::ranges::copy(answer_[k].reasons, orders[k].reasons);
    orders[k].edges = answer_[k].edges.data();
    orders[k].edge_count = answer_[k].edges.size();
  }
}

/// 1, with the reason in error(), if it throws.
std::int32_t JoinedProblem::guarded(const std::function<std::int32_t()>& function) noexcept {
  error_.clear();
  try {
    return function();
  } catch (const std::exception& exception) {
    error_ = exception.what();
  } catch (...) {
    error_ = "an unknown exception";
  }
  return 1;
}

std::int32_t JoinedProblem::simulate(void* context, const weft2_order* order, weft2_simulation* result) noexcept {
  JoinedProblem& joined = joined_of(context);
  return joined.guarded([&] {
    std::vector<Part> parts = joined.divided(*order);
    std::vector<weft2_order> orders;
    for (Part& part : parts) orders.push_back(part.described());
    std::vector<std::int64_t> scratch(parts.size());
    weft2_simulation of_classes = *result;
    if (result->scratch_bytes != nullptr) of_classes.scratch_bytes = scratch.data();
    const weft2_host& host = joined.of_classes_;
    const std::int32_t failed = host.simulate(host.context, orders.data(), &of_classes);
    result->step_ns = of_classes.step_ns;
    if (result->scratch_bytes != nullptr) *result->scratch_bytes = *std::ranges::max_element(scratch);
    return failed;
  });
}

std::int32_t JoinedProblem::schedule(void* context, const double* priorities, weft2_order* order,
                                     double* step_ns) noexcept {
  JoinedProblem& joined = joined_of(context);
  return joined.guarded([&] {
    std::vector<Part> parts(joined.first_task_.size() - 1);
    std::vector<weft2_order> orders;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      parts[k].sequence.resize(joined.first_task_[k + 1] - joined.first_task_[k]);
      parts[k].streams.resize(parts[k].sequence.size());
      orders.push_back(parts[k].described());
    }
    const weft2_host& host = joined.of_classes_;
    if (const std::int32_t failed = host.schedule(host.context, priorities, orders.data(), step_ns); failed != 0)
      return failed;
    std::size_t at = 0;
    for (std::uint32_t k = 0; k < parts.size(); ++k) {
      for (std::size_t i = 0; i < parts[k].sequence.size(); ++i, ++at) {
        order->sequence[at] = parts[k].sequence[i] + joined.first_task_[k];
        order->streams[at] = parts[k].streams[i] + joined.first_stream_[k];
      }
    }
    return 0;
  });
}

}  // namespace weft::policy
