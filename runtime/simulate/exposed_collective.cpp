#include "runtime/simulate/exposed_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace weft::simulate {
namespace {

bool is_small(const graph::Task& task) {
  const graph::KindClass kind = graph::kind_class(task.operation);
  return kind == graph::KindClass::elementwise || kind == graph::KindClass::copy;
}

/// A small computation whose result only collectives read.
bool prepares(const graph::Graph& graph, graph::TaskId task) {
  return is_small(graph.task(task)) && std::ranges::all_of(graph.out_edges(task), [&](const graph::Edge& edge) {
           return edge.distance != 0 || graph::is_collective(graph.task(edge.to).operation);
         });
}

/// A computation that could have run, and the task that its stream ran or waited for in its place.
struct HeldUp {
  graph::TaskId task, next;
};

/// The largest computation of the collective's pass that could have run at `time` but was queued after others; invalid
/// if there was none. Computations of other passes, such as recomputed ones, could only run there at the cost of
/// memory.
HeldUp held_up(const SimulatedStep& step, double time, graph::TaskId collective,
               const std::vector<bool>& needs_collective) {
  HeldUp largest;
  double most = 0;
  const graph::Phase phase = step.graph.task(collective).phase;
  for (const plan::StreamPlan& stream : step.plan.streams) {
    if (!stream.stream.compute) continue;
    graph::TaskId next;
    for (const plan::Entry& entry : stream.entries) {
      if (step.begin(entry.task) <= time) continue;
      if (!next.valid()) next = entry.task;
      if (needs_collective[entry.task.index()] || step.graph.task(entry.task).phase != phase) continue;
      const double ns = step.costs.ns[entry.task.index()];
      if (step.ready(entry.task) > time || ns <= most) continue;
      largest = {entry.task, next};
      most = ns;
    }
  }
  return largest;
}

std::string milliseconds(double ns) {
  return fmt::format("{:.3f} ms", ns * 1e-6);
}

/// When the collective's data were there, against its begin.
std::string data_text(const SimulatedStep& step, const ExposedCollective& exposed) {
  if (!exposed.input.valid()) {
    return fmt::format("its data are there from the step's begin, and {} earlier it would be hidden",
                       milliseconds(exposed.too_late_ns()));
  }
  return fmt::format("its data were there {} earlier, when {} was done", milliseconds(exposed.late_ns()),
                     step.name(exposed.input));
}

/// Sets the cause; true, as one is found.
bool blame(ExposedCollective& exposed, ExposureCause cause, graph::TaskId in_the_way, std::string because) {
  exposed.cause = cause;
  exposed.in_the_way = in_the_way;
  exposed.because = std::move(because);
  return true;
}

/// The cause if the collective began later than its data were there; false if none is found.
bool find_delay(const SimulatedStep& step, ExposedCollective& exposed) {
  const graph::TaskId task = exposed.task, before = step.before_on_stream(task);
  const graph::Edge added = step.last_added(task);
  const double queue = before.valid() ? step.end(before) : 0, edge = added.from.valid() ? step.end(added.from) : 0;
  if (added.from.valid() && edge >= queue) {
    if (const plan::Reason& reason = step.reason(task); plan::is_for_memory(reason)) {
      return blame(exposed, ExposureCause::memory_limit, added.from,
                   fmt::format("issued after {}: {}; {}", step.name(added.from), plan::to_string(reason),
                               data_text(step, exposed)));
    }
    const char* const how = added.reason == graph::EdgeReason::memory
                                ? "it uses memory that has to be released first, by"
                            : added.reason == graph::EdgeReason::recorded_order ? "it was recorded on one stream after"
                                                                                : "the policy issues it after";
    return blame(exposed, ExposureCause::chosen, added.from,
                 fmt::format("{} {}; {}", how, step.name(added.from), data_text(step, exposed)));
  }
  if (!before.valid()) return false;
  const plan::Position at = step.plan.position[task.index()];
  return blame(exposed, ExposureCause::queued, before,
               fmt::format("stream {} ran {} first; {}", step.plan.streams[at.stream.index()].stream.name,
                           step.name(before), data_text(step, exposed)));
}

/// The task whose end let this one begin, by the graph or by an added edge; invalid if there is none.
graph::TaskId released_by(const SimulatedStep& step, graph::TaskId task) {
  const graph::TaskId input = step.last_input(task), added = step.last_added(task).from;
  return added.valid() && (!input.valid() || step.end(added) > step.end(input)) ? added : input;
}

/// The cause if computations could have run while the collective was exposed; false if none could.
bool find_held_up(const SimulatedStep& step, double first_exposed, ExposedCollective& exposed) {
  const std::vector<bool> needs = descendants(step.graph, exposed.task, Dependence::data);
  const HeldUp waiting = held_up(step, first_exposed, exposed.task, needs);
  if (!waiting.task.valid()) return false;
  const std::string& next = step.name(waiting.next);
  if (!needs[waiting.next.index()]) {
    const graph::TaskId awaited = released_by(step, waiting.next), added = step.last_added(waiting.next).from;
    const bool chosen = added.valid() && awaited == added;
    return blame(exposed, chosen ? ExposureCause::chosen : ExposureCause::computation_order, waiting.next,
                 chosen
                     ? fmt::format("the policy makes {} wait for {}, which it doesn't need", next, step.name(awaited))
                     : fmt::format("{} doesn't need it and was ready, but its stream had {} first, which waited{}",
                                   step.name(waiting.task), next, awaited.valid() ? " for " + step.name(awaited) : ""));
  }
  const bool local = is_local(step.graph, waiting.next);
  return blame(exposed, local ? ExposureCause::local_task : ExposureCause::computation_order, waiting.next,
               local
                   ? fmt::format("{} needs it and blocks its stream until it ends, though {} and others don't need it",
                                 next, step.name(waiting.task))
                   : fmt::format("the stream ran {}, which needs it, before computations that don't, such as {}", next,
                                 step.name(waiting.task)));
}

/// The cause if the computation that makes its data was ready earlier, and small; false if not.
bool find_late_input(const SimulatedStep& step, ExposedCollective& exposed) {
  if (!exposed.input.valid() || step.collective(exposed.input)) return false;
  const double waited = step.begin(exposed.input) - step.ready(exposed.input);
  const graph::TaskId before = step.before_on_stream(exposed.input);
  if (!prepares(step.graph, exposed.input) || !before.valid() || waited < exposed.exposed_ns / 10 + kTick) return false;
  return blame(exposed, ExposureCause::local_task, exposed.input,
               fmt::format("{} makes its data and ran after {}, {} later than it could", step.name(exposed.input),
                           step.name(before), milliseconds(waited)));
}

void find_cause(const SimulatedStep& step, double first_exposed, ExposedCollective& exposed) {
  // A delay far shorter than the exposed time isn't what to change first.
  const bool late = exposed.late_ns() > kTick;
  const double waited = exposed.begin_ns - step.arrival(exposed.task);
  if (waited > kTick && waited >= exposed.late_ns() / 2) {
    blame(exposed, ExposureCause::members, {},
          fmt::format("waited {} for other stages, which came later", milliseconds(waited)));
    return;
  }
  if (late && exposed.late_ns() >= exposed.exposed_ns / 2 && find_delay(step, exposed)) return;
  if (find_held_up(step, first_exposed, exposed)) return;
  if ((late && find_delay(step, exposed)) || find_late_input(step, exposed)) return;
  if (exposed.duration_ns > 1.05 * exposed.alone_ns + kTick) {
    blame(exposed, ExposureCause::contention, {},
          fmt::format("took {} instead of {}: other tasks shared its link or its cores",
                      milliseconds(exposed.duration_ns), milliseconds(exposed.alone_ns)));
    return;
  }
  blame(exposed, ExposureCause::data_dependency, {},
        fmt::format("started when {} was done, and no other computation of its pass could run until it ended",
                    exposed.input.valid() ? step.name(exposed.input) : std::string("the previous step")));
}

}  // namespace

std::string_view to_string(ExposureCause cause) {
  constexpr std::array<std::string_view, 8> kTexts = {"data dependency",
                                                      "order of computations",
                                                      "a local task in the way",
                                                      "queued after another collective",
                                                      "the policy's choice",
                                                      "memory limit",
                                                      "contention",
                                                      "other stages"};
  return kTexts.at(static_cast<std::size_t>(cause));
}

std::string_view identifier_of(ExposureCause cause) {
  constexpr std::array<std::string_view, 8> kNames = {"data_dependency", "computation_order", "local_task", "queued",
                                                      "chosen",          "memory_limit",      "contention", "members"};
  return kNames.at(static_cast<std::size_t>(cause));
}

std::string_view purpose_of(const graph::Operation& operation) {
  if (std::holds_alternative<graph::ExchangeRows>(operation)) {
    return "rows of tokens go to the ranks that have their experts, or come back";
  }
  if (std::holds_alternative<graph::AllToAll>(operation)) {
    return "ranks that share sequences give away rows of all heads for all rows of their own heads, or the other way "
           "round";
  }
  const graph::Channel* channel = graph::channel_of(operation);
  if (channel == nullptr) return "";
  if (*channel == graph::Channel::expert) return "ranks tell each other how many rows each expert gets";
  if (*channel == graph::Channel::expert_copies) return "ranks that have the same experts add their gradients";
  return "";
}

bool is_local(const graph::Graph& graph, graph::TaskId task) {
  return is_small(graph.task(task)) && std::ranges::none_of(graph.out_edges(task), [&](const graph::Edge& edge) {
           const graph::Task& other = graph.task(edge.to);
           return edge.distance == 0 && other.phase == graph.task(task).phase && !graph::is_collective(other.operation);
         });
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
  found.input = step.last_input(task);
  found.ready_ns = step.ready(task);
  found.begin_ns = step.begin(task);
  find_cause(step, exposed.empty() ? found.begin_ns : static_cast<double>(exposed.front().begin - step_begin), found);
  return found;
}

}  // namespace weft::simulate
