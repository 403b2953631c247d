#include "inspect/import/step_replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/median.h"
#include "runtime/time/engine.h"

namespace weft::inspect {
StepReplay::StepReplay(const graph::OpenGraph& graph, graph::OpenMeetings meetings)
    : graph_(graph), meetings_(std::move(meetings)) {
  drop_impossible(graph, meetings_);
  first_.push_back(0);
  for (const graph::OpenClass& step : graph.classes) {
    first_.push_back(first_.back() + static_cast<std::uint32_t>(step.tasks.size()));
  }
  meeting_.resize(first_.back(), kNoTask);
  index_edges();
  for (std::uint32_t i = 0; i < meetings_.all.size(); ++i) {
    for (const graph::ClassTask& one : meetings_.all[i]) meeting_[number(one)] = i;
  }
}

void StepReplay::index_edges() {
  edges_of_.assign(first_.back() + 1, 0);
  waits_for_.assign(first_.back(), 1);
  std::size_t count = 0;
  for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
    for (const graph::OpenEdge& edge : graph_.classes[c].edges) ++edges_of_[first_[c] + edge.from + 1];
    count += graph_.classes[c].edges.size();
  }
  for (std::size_t task = 0; task < first_.back(); ++task) edges_of_[task + 1] += edges_of_[task];
  edges_.resize(count);
  std::vector<std::uint32_t> next(edges_of_.begin(), edges_of_.end() - 1);
  for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
    for (const graph::OpenEdge& edge : graph_.classes[c].edges) {
      const std::uint32_t from = first_[c] + edge.from, to = first_[c] + edge.to;
      const bool by_begin = edge.after_begin_ns || edge.kind == graph::EdgeKind::issued_before;
      const std::uint32_t delay = edge.after_begin_ns ? static_cast<std::uint32_t>(delays_.size()) : kNoTask;
      if (delay != kNoTask) delays_.emplace_back(from, to);
      edges_[next[from]++] = {to, by_begin, delay, edge.after_begin_ns.value_or(0)};
      ++waits_for_[to];
    }
  }
}

/// One run. A task has a slot of the engine of its own, and so has each delay; the last one is the step's begin.
class StepReplay::Play {
 public:
  explicit Play(StepReplay& replay) : replay_(replay) {
    for (const std::vector<graph::ClassTask>& meeting : replay.meetings_.all) missing_.push_back(meeting.size());
    replay.tasks_.assign(replay.waits_for_.size(), {});
    for (std::size_t i = 0; i < replay.waits_for_.size(); ++i) replay.tasks_[i].waits_for = replay.waits_for_[i];
  }

  void run() {
    const std::size_t delays = replay_.tasks_.size(), start = delays + replay_.delays_.size();
    const std::vector<time::ClassLoads> loads = {time::ClassLoads(start + 1)};
    time::Engine engine(loads, nullptr);
    engine.start(start, 0, 0);
    while (!engine.empty()) {
      engine.advance(engine.next());
      const std::size_t slot = engine.first();
      engine.end(slot);
      if (slot < delays) {
        leave(static_cast<std::uint32_t>(slot), false, engine.now());
      } else if (slot < start) {
        const auto [from, to] = replay_.delays_[slot - delays];
        arrive(to, {from, true}, engine.now());
      } else {
        for (std::uint32_t task = 0; task < replay_.tasks_.size(); ++task) arrive(task, {}, engine.now());
      }
      for (; !open_.empty();) begin(engine);
    }
  }

 private:
  std::span<const OutEdge> edges_of(std::uint32_t task) const {
    return std::span(replay_.edges_)
        .subspan(replay_.edges_of_[task], replay_.edges_of_[task + 1] - replay_.edges_of_[task]);
  }

  void arrive(std::uint32_t task, const Cause& cause, double now) {
    Replayed& at = replay_.tasks_[task];
    if (now > at.ready || at.cause.task == kNoTask) at.cause = cause;
    at.ready = now;
    if (--at.waits_for > 0) return;
    const std::uint32_t meeting = replay_.meeting_[task];
    if (meeting == kNoTask) {
      open_.push_back(task);
    } else if (--missing_[meeting] == 0) {
      for (const graph::ClassTask& one : replay_.meetings_.all[meeting]) open_.push_back(replay_.number(one));
    }
  }

  void begin(time::Engine& engine) {
    const std::uint32_t task = open_.back();
    open_.pop_back();
    replay_.tasks_[task].begin = engine.now();
    engine.start(task, 0, replay_.lengths_[task]);
    for (const OutEdge& edge : edges_of(task)) {
      if (edge.delay != kNoTask) engine.start(replay_.tasks_.size() + edge.delay, 0, edge.delay_ns);
    }
    leave(task, true, engine.now());
  }

  /// Follows the edges that wait for a task's begin without a delay, or for its end.
  void leave(std::uint32_t task, bool begins, double now) {
    for (const OutEdge& edge : edges_of(task)) {
      if (edge.delay == kNoTask && edge.by_begin == begins) arrive(edge.to, {task, begins}, now);
    }
  }

  StepReplay& replay_;
  std::vector<std::size_t> missing_;  // by meeting: members that aren't ready
  std::vector<std::uint32_t> open_;   // tasks that can begin
};

std::vector<ReplayedClass> StepReplay::run(std::vector<double> lengths) {
  lengths_ = std::move(lengths);
  for (const std::vector<graph::ClassTask>& meeting : meetings_.all) {
    // What meets takes the time of its first part, as in the simulator.
    for (const graph::ClassTask& one : meeting) lengths_[number(one)] = lengths_[number(meeting.front())];
  }
  Play(*this).run();
  std::vector<ReplayedClass> out;
  for (std::size_t c = 0; c < graph_.classes.size(); ++c) out.push_back(class_of(c));
  return out;
}

ReplayedClass StepReplay::class_of(std::size_t of_class) const {
  ReplayedClass played;
  std::uint32_t last = kNoTask;
  for (std::uint32_t task = first_[of_class]; task < first_[of_class + 1]; ++task) {
    const double end = tasks_[task].begin + lengths_[task];
    played.begins.push_back(tasks_[task].begin);
    if (graph_.classes[of_class].tasks[task - first_[of_class]].operation == graph::kLaterStart) played.begin = end;
    if (end <= played.end && last != kNoTask) continue;
    played.end = end;
    last = task;
  }
  if (last != kNoTask) played.path = path_to(of_class, last);
  return played;
}

ReplayedPath StepReplay::path_to(std::size_t of_class, std::uint32_t last) const {
  ReplayedPath path;
  path.waiting_by_class.assign(graph_.classes.size(), 0);
  bool whole = true;  // the task's length is on the path
  for (std::uint32_t task = last; task != kNoTask;) {
    const graph::OpenTask& played = graph_.classes[of_class].tasks[task - first_[of_class]];
    double& of_kind = played.kind == graph::OpenKind::host      ? path.host
                      : played.kind == graph::OpenKind::compute ? path.computing
                      : played.kind == graph::OpenKind::copy    ? path.copying
                                                                : path.communicating;
    const Replayed& at = tasks_[task];
    if (whole && played.operation != graph::kLaterStart) of_kind += lengths_[task];
    if (meeting_[task] != kNoTask && at.begin > at.ready) {
      const std::vector<graph::ClassTask>& members = meetings_.all[meeting_[task]];
      const auto came_last =
          std::ranges::max_element(members, {}, [&](const graph::ClassTask& one) { return tasks_[number(one)].ready; });
      path.waiting_for_ranks += at.begin - at.ready;
      path.waiting_by_class[came_last->of_class] += at.begin - at.ready;
    }
    if (at.cause.task != kNoTask && at.cause.by_begin) path.host += at.ready - tasks_[at.cause.task].begin;
    whole = !at.cause.by_begin;
    task = at.cause.task;
  }
  return path;
}

std::vector<double> recorded_lengths(const graph::OpenGraph& graph) {
  std::vector<double> out;
  for (const graph::OpenClass& step : graph.classes) {
    for (const graph::OpenTask& task : step.tasks) {
      out.push_back(task.ns ? *task.ns : task.begin_ns ? *task.end_ns - *task.begin_ns : 0);
    }
  }
  return out;
}

double step_length(const std::vector<ReplayedClass>& classes) {
  double end = 0;
  for (const ReplayedClass& each : classes) end = std::max(end, each.end);
  return end;
}

namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

std::optional<double> net_time(const graph::OpenGraph& graph, const std::vector<graph::ClassTask>& meeting,
                               const std::vector<double>& clocks) {
  std::optional<double> least;
  double met = -kEndless, pause = kEndless, sum = 0;
  bool timed = true;
  const auto task_of = [&](const graph::ClassTask& one) -> const graph::OpenTask& {
    return graph.classes[one.of_class].tasks[one.task];
  };
  for (const graph::ClassTask& one : meeting) {
    const graph::OpenTask& task = task_of(one);
    if (task.ns && (!least || *task.ns < *least)) least = task.ns;
    timed = timed && task.ns && task.begin_ns && task.end_ns;
    if (!timed) continue;
    met = std::max(met, *task.begin_ns - clocks[one.of_class]);
    pause = std::min(pause, *task.ns - (*task.end_ns - *task.begin_ns));  // that counts as the task's own
  }
  if (!timed) return least;
  for (const graph::ClassTask& one : meeting) {
    sum += std::max(0.0, *task_of(one).end_ns - clocks[one.of_class] - met);
  }
  return sum / static_cast<double>(meeting.size()) + std::max(0.0, pause);
}

}  // namespace

void set_net_times(graph::OpenGraph& graph, const graph::OpenMeetings& meetings, const std::vector<double>& clocks) {
  for (const std::vector<graph::ClassTask>& meeting : meetings.all) {
    const std::optional<double> net = net_time(graph, meeting, clocks);
    for (const graph::ClassTask& one : meeting) graph.classes[one.of_class].tasks[one.task].ns = net;
  }
}

std::vector<double> clock_offsets(const graph::OpenGraph& graph, const graph::OpenMeetings& meetings) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> later;  // ends of the second class
  for (const std::vector<graph::ClassTask>& meeting : meetings.all) {
    const graph::ClassTask& first = meeting.front();
    const std::optional<double>& end = graph.classes[first.of_class].tasks[first.task].end_ns;
    for (const graph::ClassTask& one : meeting) {
      const std::optional<double>& other = graph.classes[one.of_class].tasks[one.task].end_ns;
      if (one.of_class == first.of_class || !end || !other) continue;
      later[{first.of_class, one.of_class}].push_back(*other - *end);
      later[{one.of_class, first.of_class}].push_back(*end - *other);
    }
  }
  std::vector<std::optional<double>> found(graph.classes.size());
  for (std::uint32_t root = 0; root < found.size(); ++root) {
    if (found[root]) continue;
    found[root] = 0;  // nobody that is known so far meets it
    std::vector<std::uint32_t> reached = {root};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (auto at = later.lower_bound({reached[i], 0}); at != later.end() && at->first.first == reached[i]; ++at) {
        const std::uint32_t other = at->first.second;
        if (found[other]) continue;
        found[other] = *found[reached[i]] + median(at->second);
        reached.push_back(other);
      }
    }
  }
  std::vector<double> out;
  for (const std::optional<double>& one : found) out.push_back(*one);
  return out;
}

std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, graph::OpenMeetings meetings) {
  return StepReplay(graph, std::move(meetings)).run(recorded_lengths(graph));
}

}  // namespace weft::inspect
