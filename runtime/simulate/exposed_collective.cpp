#include "runtime/simulate/exposed_collective.h"

#include <fmt/format.h>

namespace weft::simulate {
namespace {

/// The largest computation that could have run at `time` but was queued behind others; invalid if there was none.
graph::TaskId held_up(const SimulatedStep& step, double time, const std::vector<bool>& needs_collective) {
  graph::TaskId largest;
  double most = 0;
  for (const plan::StreamPlan& stream : step.plan.streams) {
    if (!stream.stream.compute) continue;
    for (const plan::Entry& entry : stream.entries) {
      if (step.begin(entry.task) <= time || needs_collective[entry.task.index()]) continue;
      const double ns = step.costs.ns[entry.task.index()];
      if (step.ready(entry.task) > time || ns <= most) continue;
      largest = entry.task;
      most = ns;
    }
  }
  return largest;
}

void find_cause(const SimulatedStep& step, double first_exposed, ExposedCollective& exposed) {
  const graph::TaskId task = exposed.task;
  const graph::TaskId before = step.before_on_stream(task);
  const graph::Edge added = step.last_added(task);
  if (exposed.begin_ns > exposed.ready_ns + kTick) {
    const double queue = before.valid() ? step.end(before) : 0, edge = added.from.valid() ? step.end(added.from) : 0;
    const double late = (exposed.begin_ns - exposed.ready_ns) * 1e-6;
    if (added.from.valid() && edge >= queue) {
      if (const plan::Reason& reason = step.reason(task); plan::is_for_memory(reason)) {
        exposed.cause = ExposureCause::memory_limit;
        exposed.because = fmt::format("issued {:.3f} ms late: {}", late, plan::to_string(reason));
        return;
      }
      exposed.cause = ExposureCause::chosen;
      exposed.because =
          added.reason == graph::EdgeReason::memory
              ? fmt::format("issued {:.3f} ms late: it uses memory that {} had to release first", late,
                            step.name(added.from))
              : fmt::format("issued {:.3f} ms late: the policy makes it wait for {}", late, step.name(added.from));
      return;
    }
    if (before.valid()) {
      const plan::Position at = step.plan.position[task.index()];
      exposed.cause = ExposureCause::queued;
      exposed.because = fmt::format("queued for {:.3f} ms behind {} on stream {}", late, step.name(before),
                                    step.plan.streams[at.stream.index()].stream.name);
      return;
    }
  }
  if (const graph::TaskId waiting = held_up(step, first_exposed, descendants(step.graph, task)); waiting.valid()) {
    exposed.cause = ExposureCause::computation_order;
    exposed.because = fmt::format(
        "computations that don't need it were ready, such as {}, but the stream ran them after a task that does",
        step.name(waiting));
    return;
  }
  if (exposed.duration_ns > 1.05 * exposed.alone_ns + kTick) {
    exposed.cause = ExposureCause::contention;
    exposed.because = fmt::format("took {:.3f} ms instead of {:.3f}: other tasks shared its link or its cores",
                                  exposed.duration_ns * 1e-6, exposed.alone_ns * 1e-6);
    return;
  }
  const graph::TaskId input = step.last_input(task);
  exposed.cause = ExposureCause::data_dependency;
  exposed.because = fmt::format("started when {} was done, and no other computation could run until it ended",
                                input.valid() ? step.name(input) : std::string("the previous step"));
}

}  // namespace

std::string_view to_string(ExposureCause cause) {
  switch (cause) {
    case ExposureCause::data_dependency:
      return "data dependency";
    case ExposureCause::computation_order:
      return "order of computations";
    case ExposureCause::queued:
      return "queued behind another collective";
    case ExposureCause::chosen:
      return "issued late by choice";
    case ExposureCause::memory_limit:
      return "memory limit";
    case ExposureCause::contention:
      return "contention";
  }
  return "?";
}

std::string_view identifier_of(ExposureCause cause) {
  switch (cause) {
    case ExposureCause::data_dependency:
      return "data_dependency";
    case ExposureCause::computation_order:
      return "computation_order";
    case ExposureCause::queued:
      return "queued";
    case ExposureCause::chosen:
      return "chosen";
    case ExposureCause::memory_limit:
      return "memory_limit";
    case ExposureCause::contention:
      return "contention";
  }
  return "?";
}

std::optional<ExposedCollective> exposed_collective(const SimulatedStep& step, graph::TaskId task, double least_ns) {
  const std::int64_t step_begin = step.trace.begin;
  const auto begin = step_begin + static_cast<std::int64_t>(step.begin(task));
  const auto end = step_begin + static_cast<std::int64_t>(step.end(task));
  const Intervals exposed = difference(merged({{begin, end}}), step.computing);
  ExposedCollective found;
  found.task = task;
  found.exposed_ns = static_cast<double>(total_length(exposed));
  if (found.exposed_ns < least_ns) return std::nullopt;
  found.duration_ns = step.end(task) - step.begin(task);
  found.alone_ns = step.costs.ns[task.index()];
  found.ready_ns = step.ready(task);
  found.begin_ns = step.begin(task);
  find_cause(step, exposed.empty() ? found.begin_ns : static_cast<double>(exposed.front().begin - step_begin), found);
  return found;
}

}  // namespace weft::simulate
