#include "inspect/import/step_replay.h"

#include <algorithm>
#include <utility>

#include "base/median.h"
#include "runtime/time/engine.h"

namespace weft::inspect {
namespace {

constexpr std::uint32_t kNoTask = UINT32_MAX;

/// Tasks of all classes under one number each. A task has a slot of the engine of its own, and so has each delay: of an
/// edge, and until a class begins.
class JointReplay {
 public:
  JointReplay(const graph::OpenGraph& graph, const graph::OpenMeetings& meetings, const std::vector<double>& starts)
      : graph_(graph), meetings_(meetings), starts_(starts) {
    first_.push_back(0);
    for (const graph::OpenClass& step : graph.classes) {
      first_.push_back(first_.back() + static_cast<std::uint32_t>(step.tasks.size()));
    }
    const std::size_t count = first_.back();
    starts_.resize(graph.classes.size(), 0.0);
    tasks_.resize(count);
    index_edges();
    for (std::uint32_t i = 0; i < meetings.all.size(); ++i) {
      missing_.push_back(meetings.all[i].size());
      for (const graph::ClassTask& one : meetings.all[i]) tasks_[number(one)].meeting = i;
    }
  }

  std::vector<ReplayedClass> run() {
    const std::vector<time::ClassLoads> loads = {time::ClassLoads(slot_of_start(starts_.size()))};
    time::Engine engine(loads, nullptr);
    for (std::size_t c = 0; c < starts_.size(); ++c) engine.start(slot_of_start(c), 0, starts_[c]);
    while (!engine.empty()) {
      engine.advance(engine.next());
      const std::size_t slot = engine.first();
      engine.end(slot);
      if (slot < tasks_.size()) {
        leave(static_cast<std::uint32_t>(slot), false, engine.now());
      } else if (slot < slot_of_start(0)) {
        const auto [from, to] = delays_[slot - tasks_.size()];
        arrive(to, {from, true}, engine.now());
      } else {
        const std::size_t begun = slot - slot_of_start(0);
        for (std::uint32_t task = first_[begun]; task < first_[begun + 1]; ++task) arrive(task, {}, engine.now());
      }
      for (; !open_.empty();) begin(engine);
    }
    std::vector<ReplayedClass> out;
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) out.push_back(class_of(c));
    return out;
  }

 private:
  struct OutEdge {
    std::uint32_t to;
    bool by_begin;        // of its task, rather than by its end
    std::uint32_t delay;  // the number of its delay after that; kNoTask: none
    double delay_ns;
  };
  /// What made a task ready.
  struct Cause {
    std::uint32_t task = kNoTask;
    bool by_begin = false;
  };
  struct Replayed {
    std::uint32_t waits_for = 1;  // edges, and the begin of its class
    std::uint32_t meeting = kNoTask;
    double ready = 0, begin = 0;
    Cause cause = {};
    std::vector<OutEdge> out = {};
  };

  std::uint32_t number(const graph::ClassTask& task) const { return first_[task.of_class] + task.task; }
  std::size_t slot_of_start(std::size_t of_class) const { return tasks_.size() + delays_.size() + of_class; }

  double length_of(std::uint32_t task) const {
    const auto of_class = static_cast<std::size_t>(std::ranges::upper_bound(first_, task) - first_.begin() - 1);
    return graph_.classes[of_class].tasks[task - first_[of_class]].ns.value_or(0);
  }

  void index_edges() {
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      for (const graph::OpenEdge& edge : graph_.classes[c].edges) {
        const std::uint32_t from = first_[c] + edge.from, to = first_[c] + edge.to;
        const bool by_begin = edge.after_begin_ns || edge.kind == graph::EdgeKind::issued_before;
        const std::uint32_t delay = edge.after_begin_ns ? static_cast<std::uint32_t>(delays_.size()) : kNoTask;
        if (delay != kNoTask) delays_.emplace_back(from, to);
        tasks_[from].out.push_back({to, by_begin, delay, edge.after_begin_ns.value_or(0)});
        ++tasks_[to].waits_for;
      }
    }
  }

  void arrive(std::uint32_t task, const Cause& cause, double now) {
    Replayed& at = tasks_[task];
    if (now > at.ready || at.cause.task == kNoTask) at.cause = cause;
    at.ready = now;
    if (--at.waits_for > 0) return;
    if (at.meeting == kNoTask) {
      open_.push_back(task);
    } else if (--missing_[at.meeting] == 0) {
      for (const graph::ClassTask& one : meetings_.all[at.meeting]) open_.push_back(number(one));
    }
  }

  void begin(time::Engine& engine) {
    const std::uint32_t task = open_.back();
    open_.pop_back();
    tasks_[task].begin = engine.now();
    engine.start(task, 0, length_of(task));
    for (const OutEdge& edge : tasks_[task].out) {
      if (edge.delay != kNoTask) engine.start(tasks_.size() + edge.delay, 0, edge.delay_ns);
    }
    leave(task, true, engine.now());
  }

  /// Follows the edges that wait for a task's begin without a delay, or for its end.
  void leave(std::uint32_t task, bool begins, double now) {
    for (const OutEdge& edge : tasks_[task].out) {
      if (edge.delay == kNoTask && edge.by_begin == begins) arrive(edge.to, {task, begins}, now);
    }
  }

  ReplayedClass class_of(std::size_t of_class) const {
    ReplayedClass played{starts_[of_class], 0};
    std::uint32_t last = kNoTask;
    for (std::uint32_t task = first_[of_class]; task < first_[of_class + 1]; ++task) {
      const double end = tasks_[task].begin + length_of(task);
      if (end <= played.end && last != kNoTask) continue;
      played.end = end;
      last = task;
    }
    if (last != kNoTask) played.path = path_to(of_class, last);
    return played;
  }

  ReplayedPath path_to(std::size_t of_class, std::uint32_t last) const {
    ReplayedPath path;
    bool whole = true;  // the task's length is on the path
    for (std::uint32_t task = last; task != kNoTask;) {
      const graph::OpenTask& played = graph_.classes[of_class].tasks[task - first_[of_class]];
      double& of_kind = played.kind == graph::OpenKind::host      ? path.host
                        : played.kind == graph::OpenKind::compute ? path.computing
                        : played.kind == graph::OpenKind::copy    ? path.copying
                                                                  : path.communicating;
      const Replayed& at = tasks_[task];
      if (whole) of_kind += played.ns.value_or(0);
      path.waiting_for_ranks += at.begin - at.ready;
      if (at.cause.task != kNoTask && at.cause.by_begin) path.host += at.ready - tasks_[at.cause.task].begin;
      whole = !at.cause.by_begin;
      task = at.cause.task;
    }
    return path;
  }

  const graph::OpenGraph& graph_;
  const graph::OpenMeetings& meetings_;
  std::vector<double> starts_;
  std::vector<std::uint32_t> first_;  // number of each class's first task
  std::vector<Replayed> tasks_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> delays_;  // the tasks of each one's edge
  std::vector<std::size_t> missing_;                             // by meeting: members that aren't ready
  std::vector<std::uint32_t> open_;                              // tasks that can begin
};

}  // namespace

void set_net_times(graph::OpenGraph& graph, const graph::OpenMeetings& meetings) {
  for (const std::vector<graph::ClassTask>& meeting : meetings.all) {
    std::optional<double> least;
    for (const graph::ClassTask& one : meeting) {
      const std::optional<double>& ns = graph.classes[one.of_class].tasks[one.task].ns;
      if (ns && (!least || *ns < *least)) least = ns;
    }
    for (const graph::ClassTask& one : meeting) graph.classes[one.of_class].tasks[one.task].ns = least;
  }
}

std::vector<double> clock_offsets(const graph::OpenGraph& graph, const graph::OpenMeetings& meetings) {
  std::vector<std::vector<double>> differences(graph.classes.size());
  for (const std::vector<graph::ClassTask>& meeting : meetings.all) {
    if (meeting[0].of_class != 0) continue;
    const std::optional<double>& first = graph.classes[0].tasks[meeting[0].task].end_ns;
    for (const graph::ClassTask& one : meeting) {
      const std::optional<double>& end = graph.classes[one.of_class].tasks[one.task].end_ns;
      if (first && end) differences[one.of_class].push_back(*end - *first);
    }
  }
  std::vector<double> out;
  for (std::vector<double>& some : differences) out.push_back(median(std::move(some)));
  return out;
}

std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, graph::OpenMeetings meetings,
                                        const std::vector<double>& starts) {
  drop_impossible(graph, meetings);
  return JointReplay(graph, meetings, starts).run();
}

}  // namespace weft::inspect
