#include "inspect/import/step_replay.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft::inspect {
namespace {

constexpr std::uint32_t kAlone = 0xFFFFFFFF;

/// Tasks of all classes under one number each.
class JointReplay {
 public:
  JointReplay(const graph::OpenGraph& graph, const MatchedCollectives& matched, const std::vector<double>& starts)
      : graph_(graph), matched_(matched) {
    first_.push_back(0);
    for (const graph::OpenClass& step : graph.classes) {
      first_.push_back(first_.back() + static_cast<std::uint32_t>(step.tasks.size()));
    }
    const std::size_t count = first_.back();
    ready_.resize(count);
    begin_.resize(count);
    cause_.assign(count, {kAlone, false});
    waiting_for_.resize(count);
    meeting_.assign(count, kAlone);
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      std::fill(ready_.begin() + first_[c], ready_.begin() + first_[c + 1], c < starts.size() ? starts[c] : 0.0);
    }
    index_edges();
    for (std::uint32_t i = 0; i < matched.meetings.size(); ++i) {
      missing_.push_back(matched.meetings[i].size());
      for (const graph::ClassTask& one : matched.meetings[i]) meeting_[first_[one.of_class] + one.task] = i;
    }
  }

  std::vector<ReplayedClass> run(const std::vector<double>& starts) && {
    for (std::uint32_t task = 0; task < ready_.size(); ++task) {
      if (waiting_for_[task] == 0) free_.push_back(task);
    }
    drain();
    for (std::uint32_t i = 0; i < missing_.size(); ++i) {
      if (missing_[i] == 0) continue;
      give_up(i);
      drain();
    }
    std::vector<ReplayedClass> out;
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      ReplayedClass played{c < starts.size() ? starts[c] : 0.0, 0};
      std::uint32_t last = kAlone;
      for (std::uint32_t i = first_[c]; i < first_[c + 1]; ++i) {
        const double end = begin_[i] + length_of(c, i);
        if (end > played.end || last == kAlone) {
          played.end = end;
          last = i;
        }
      }
      if (last != kAlone) played.path = path_to(c, last);
      out.push_back(played);
    }
    return out;
  }

 private:
  struct OutEdge {
    std::uint32_t to;
    const graph::OpenEdge* edge;
  };
  /// What made a task ready.
  struct Cause {
    std::uint32_t task;
    bool by_begin;  // of the task, rather than by its end
  };

  double length_of(std::size_t of_class, std::uint32_t task) const {
    return graph_.classes[of_class].tasks[task - first_[of_class]].ns.value_or(0);
  }

  ReplayedPath path_to(std::size_t of_class, std::uint32_t last) const {
    ReplayedPath path;
    bool whole = true;  // the task's length is on the path
    for (std::uint32_t task = last; task != kAlone;) {
      const graph::OpenTask& played = graph_.classes[of_class].tasks[task - first_[of_class]];
      double& of_kind = played.kind == graph::OpenKind::host      ? path.host
                        : played.kind == graph::OpenKind::compute ? path.computing
                        : played.kind == graph::OpenKind::copy    ? path.copying
                                                                  : path.communicating;
      if (whole) of_kind += length_of(of_class, task);
      path.waiting_for_ranks += begin_[task] - ready_[task];
      const Cause& cause = cause_[task];
      if (cause.task != kAlone && cause.by_begin) path.host += ready_[task] - begin_[cause.task];
      whole = !cause.by_begin;
      task = cause.task;
    }
    return path;
  }

  void index_edges() {
    edge_begin_.assign(ready_.size() + 1, 0);
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      for (const graph::OpenEdge& edge : graph_.classes[c].edges) {
        ++edge_begin_[first_[c] + edge.from + 1];
        ++waiting_for_[first_[c] + edge.to];
      }
    }
    std::partial_sum(edge_begin_.begin(), edge_begin_.end(), edge_begin_.begin());
    edges_.resize(edge_begin_.back());
    std::vector<std::uint32_t> next(edge_begin_.begin(), edge_begin_.end() - 1);
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      for (const graph::OpenEdge& edge : graph_.classes[c].edges) {
        edges_[next[first_[c] + edge.from]++] = {first_[c] + edge.to, &edge};
      }
    }
  }

  void drain() {
    while (!free_.empty()) {
      const std::uint32_t task = free_.back();
      free_.pop_back();
      const std::uint32_t meeting = meeting_[task];
      if (meeting == kAlone) {
        start(task, ready_[task]);
      } else if (--missing_[meeting] == 0) {
        double latest = 0;
        for (const graph::ClassTask& one : matched_.meetings[meeting]) {
          latest = std::max(latest, ready_[first_[one.of_class] + one.task]);
        }
        for (const graph::ClassTask& one : matched_.meetings[meeting]) start(first_[one.of_class] + one.task, latest);
      }
    }
  }

  /// Lets the members of a meeting begin by themselves: the ones that are there, and the others once they come.
  void give_up(std::uint32_t meeting) {
    missing_[meeting] = 0;
    for (const graph::ClassTask& one : matched_.meetings[meeting]) {
      const std::uint32_t task = first_[one.of_class] + one.task;
      meeting_[task] = kAlone;
      if (waiting_for_[task] == 0) free_.push_back(task);
    }
  }

  void start(std::uint32_t task, double begin) {
    begin_[task] = begin;
    const auto of = std::ranges::upper_bound(first_, task) - first_.begin() - 1;
    const double end =
        begin +
        graph_.classes[static_cast<std::size_t>(of)].tasks[task - first_[static_cast<std::size_t>(of)]].ns.value_or(0);
    for (std::uint32_t i = edge_begin_[task]; i < edge_begin_[task + 1]; ++i) {
      const auto& [to, edge] = edges_[i];
      const bool issued = edge->kind == graph::EdgeKind::issued_before;
      const double ready = edge->after_begin_ns ? begin + *edge->after_begin_ns : issued ? begin : end;
      if (ready > ready_[to] || (ready == ready_[to] && cause_[to].task == kAlone)) {
        ready_[to] = ready;
        cause_[to] = {task, edge->after_begin_ns.has_value() || issued};
      }
      if (--waiting_for_[to] == 0) free_.push_back(to);
    }
  }

  const graph::OpenGraph& graph_;
  const MatchedCollectives& matched_;
  std::vector<std::uint32_t> first_;  // number of each class's first task
  std::vector<double> ready_, begin_;
  std::vector<Cause> cause_;
  std::vector<std::uint32_t> waiting_for_, meeting_, edge_begin_;
  std::vector<OutEdge> edges_;
  std::vector<std::size_t> missing_;  // by meeting: members that aren't ready
  std::vector<std::uint32_t> free_;
};

}  // namespace

std::vector<ReplayedClass> replay_steps(const graph::OpenGraph& graph, const MatchedCollectives& matched,
                                        const std::vector<double>& starts) {
  return JointReplay(graph, matched, starts).run(starts);
}

}  // namespace weft::inspect
