#include "runtime/policy/pipeline/joint_orders.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "graph/meetings.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

constexpr std::uint32_t kNoTask = UINT32_MAX;

/// The tasks that a rank starts by itself, each after all that it depends on, otherwise as wanted.
std::vector<std::uint32_t> own_sequence(const graph::Graph& graph, const WantedSequence& wanted, std::uint32_t rank,
                                        const graph::Meetings& steps) {
  std::vector<std::uint32_t> sequence, open;
  std::vector<char> seen(graph.tasks().size(), 0);
  sequence.reserve(seen.size());
  const auto first_unseen = [&](std::uint32_t task) {
    for (const graph::Edge& edge : graph.in_edges(graph::TaskId(std::size_t{task}))) {
      if (edge.distance == 0 && seen[edge.from.index()] == 0) return edge.from.value;
    }
    return kNoTask;
  };
  for (const graph::TaskId task : wanted.tasks) {
    if (seen[task.index()] == 0) open.push_back(task.value);
    while (!open.empty()) {
      const std::uint32_t top = open.back();
      if (const std::uint32_t before = first_unseen(top); before != kNoTask) {
        open.push_back(before);
        continue;
      }
      open.pop_back();
      seen[top] = 1;
      if (steps.of(rank, top) == graph::Meetings::kNone) sequence.push_back(top);
    }
  }
  return sequence;
}

/// One rank's state in the replay.
class ReplayedRank {
 public:
  ReplayedRank(const graph::Graph& graph, const cost::TaskCosts& costs, const WantedSequence& wanted,
               std::uint32_t rank, const graph::Meetings& steps, int compute_streams)
      : graph_(graph),
        cost_(costs.ns),
        item_(wanted.item),
        message_reason_(static_cast<std::uint32_t>(wanted.reasons.size())),
        own_(own_sequence(graph, wanted, rank, steps)),
        missing_(graph.tasks().size(), 0),
        ready_(graph.tasks().size(), 0),
        placed_(graph.tasks().size(), 0) {
    order_.streams = plan::streams_of(graph, compute_streams);
    order_.reasons = wanted.reasons;
    order_.reasons.push_back({.table = &kPipelineReasons, .code = kAtBothEnds});
    order_.reasons.push_back({.table = &kPipelineReasons, .code = kTogether});
    order_.sequence.reserve(graph.tasks().size());
    streams_.resize(order_.streams.size());
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      for (const graph::Edge& edge : graph.in_edges(graph::TaskId(i))) missing_[i] += edge.distance == 0 ? 1 : 0;
    }
  }

  const graph::Graph& graph() const { return graph_; }
  bool is_ready(std::uint32_t task) const { return missing_[task] == 0; }
  bool is_placed(std::uint32_t task) const { return placed_[task] != 0; }
  double cost(std::uint32_t task) const { return cost_[task]; }
  /// The moment at which the task can begin once all before it is placed.
  double start_of(std::uint32_t task) const { return std::max(ready_[task], streams_[stream_of(task)].free); }
  bool computes(std::uint32_t task) const { return graph::channel_of(graph_.tasks()[task].operation) == nullptr; }

  /// The next task of its own, kNoTask at the end.
  std::uint32_t head() {
    while (next_ < own_.size() && placed_[own_[next_]] != 0) ++next_;
    return next_ < own_.size() ? own_[next_] : kNoTask;
  }
  /// When the head has its turn. A collective has it with the computation before it, however late it begins.
  double turn_of(std::uint32_t task) const { return computes(task) ? start_of(task) : front_; }

  /// Places the task and calls released(task) for each that has nothing missing now.
  template <class F>
  void place(std::uint32_t task, double start, double cost, bool joint, F&& released) {
    const double finish = start + cost;
    const std::size_t stream = stream_of(task);
    const graph::TaskId id{std::size_t{task}};
    if (computes(task)) begin_entry(task, start);
    const bool message = !computes(task) && graph_.direction(order_.streams[stream].channel) != graph::Direction::both;
    if (message) link_message(task, stream, start, finish);
    if (computes(task)) last_finish_ = finish;
    std::uint32_t reason = item_[task];
    if (joint) reason = message ? message_reason_ : message_reason_ + 1;
    order_.sequence.push_back({id, plan::StreamId(stream), reason});
    streams_[stream].free = finish;
    placed_[task] = 1;
    for (const graph::Edge& edge : graph_.out_edges(id)) {
      if (edge.distance != 0) continue;
      ready_[edge.to.index()] = std::max(ready_[edge.to.index()], finish);
      if (--missing_[edge.to.index()] == 0) released(edge.to.value);
    }
  }

  plan::Order take() { return std::move(order_); }

 private:
  struct Ended {
    std::uint32_t task;
    double finish;
  };
  struct StreamState {
    double free = 0;
    std::vector<Ended> sends;       // of a channel of sends, in order
    std::size_t waited = 0;         // of these, the number that an entry waits for
    std::uint32_t after = kNoTask;  // of a channel of receives: the task that the last one waits for
  };

  std::size_t stream_of(std::uint32_t task) const {
    const graph::Channel* channel = graph::channel_of(graph_.tasks()[task].operation);
    return channel == nullptr ? 0 : plan::stream_of_channel(order_.streams, *channel).index();
  }

  void begin_entry(std::uint32_t task, double start) {
    front_ = std::max(front_, start);
    if (last_ != kNoTask && item_[last_] != item_[task]) {
      ended_.push_back({last_, last_finish_});
      for (StreamState& stream : streams_) {
        std::size_t over = stream.waited;
        while (over < stream.sends.size() && stream.sends[over].finish <= entry_began_) ++over;
        if (over == stream.waited) continue;
        order_.added_edges.push_back(policy_edge(graph::TaskId(stream.sends[over - 1].task), graph::TaskId(task)));
        stream.waited = over;
      }
      entry_began_ = start;
    }
    last_ = task;
  }

  void link_message(std::uint32_t task, std::size_t stream, double start, double finish) {
    if (graph_.direction(order_.streams[stream].channel) == graph::Direction::out) {
      streams_[stream].sends.push_back({task, finish});
      return;
    }
    const auto over = std::find_if(ended_.rbegin(), ended_.rend(), [&](const Ended& e) { return e.finish <= start; });
    if (over == ended_.rend() || over->task == streams_[stream].after) return;
    streams_[stream].after = over->task;
    order_.added_edges.push_back(policy_edge(graph::TaskId(over->task), graph::TaskId(task)));
  }

  const graph::Graph& graph_;
  std::span<const double> cost_;
  std::span<const std::uint32_t> item_;
  std::uint32_t message_reason_;
  std::vector<std::uint32_t> own_;
  std::vector<std::uint32_t> missing_;  // by task: those before it that aren't placed
  std::vector<double> ready_;           // by task: when those before it are done
  std::vector<char> placed_;
  std::size_t next_ = 0;
  double front_ = 0;  // the start of the last computation
  std::vector<StreamState> streams_;
  std::vector<Ended> ended_;      // last computations of entries that are over
  std::uint32_t last_ = kNoTask;  // the last computation
  double last_finish_ = 0, entry_began_ = 0;
  plan::Order order_;
};

class Replay {
 public:
  Replay(graph::Classes classes, std::span<const cost::TaskCosts> costs, const std::vector<WantedSequence>& wanted,
         const PolicyOptions& options)
      : steps_(classes), step_missing_(steps_.all().size(), 0), ready_(classes.size()) {
    for (std::uint32_t k = 0; k < classes.size(); ++k)
      ranks_.emplace_back(*classes[k], costs[k], wanted[k], k, steps_, options.compute_streams);
    for (std::uint32_t s = 0; s < step_missing_.size(); ++s) {
      const graph::Meeting& step = steps_.all()[s];
      step_missing_[s] = static_cast<std::uint32_t>(step.members.size()) + (step.has_previous ? 1 : 0);
    }
    for (std::uint32_t k = 0; k < ranks_.size(); ++k) {
      tasks_left_ += classes[k]->tasks().size();
      for (std::uint32_t i = 0; i < classes[k]->tasks().size(); ++i) {
        if (ranks_[k].is_ready(i)) release(k, i);
      }
      offer_head(k);
    }
  }

  std::vector<plan::Order> run() {
    while (tasks_left_ > 0) {
      if (candidates_.empty()) {
        start_first_ready();
        continue;
      }
      const Candidate candidate = candidates_.top();
      candidates_.pop();
      if (candidate.rank == kJoint) {
        start_step(candidate);
      } else {
        start_head(candidate);
      }
    }
    std::vector<plan::Order> orders;
    for (ReplayedRank& rank : ranks_) orders.push_back(rank.take());
    return orders;
  }

 private:
  static constexpr std::uint32_t kJoint = 0;  // ranks are numbered from 1, so that joint steps come first
  struct Candidate {
    double time;
    std::uint32_t rank, index;  // a step's number, or a task
    friend auto operator<=>(const Candidate&, const Candidate&) = default;
  };

  void release(std::uint32_t k, std::uint32_t task) {
    const std::uint32_t step = steps_.of(k, task);
    if (step == graph::Meetings::kNone) {
      ready_[k].push(task);
    } else {
      release_step(step);
    }
  }

  void release_step(std::uint32_t step) {
    if (--step_missing_[step] == 0) candidates_.push({time_of(step), kJoint, step});
  }

  double time_of(std::uint32_t step) const {
    double time = 0;
    for (const graph::ClassTask& member : steps_.all()[step].members)
      time = std::max(time, ranks_[member.of_class].start_of(member.task));
    return time;
  }

  /// A head that became ready is a candidate; one that is a candidate already isn't offered again.
  void offer_head(std::uint32_t k) {
    const std::uint32_t head = ranks_[k].head();
    if (head != kNoTask && ranks_[k].is_ready(head)) candidates_.push({ranks_[k].turn_of(head), k + 1, head});
  }

  void place(std::uint32_t k, std::uint32_t task, double start, double cost, bool joint) {
    const std::uint32_t head = ranks_[k].head();
    const bool waits = head != kNoTask && !ranks_[k].is_ready(head);
    ranks_[k].place(task, start, cost, joint, [&](std::uint32_t released) { release(k, released); });
    --tasks_left_;
    if (head == task || (waits && ranks_[k].is_ready(head))) offer_head(k);
  }

  void start_head(const Candidate& candidate) {
    const std::uint32_t k = candidate.rank - 1;
    if (ranks_[k].is_placed(candidate.index)) return;
    place(k, candidate.index, ranks_[k].start_of(candidate.index), ranks_[k].cost(candidate.index), false);
  }

  void start_step(const Candidate& candidate) {
    const double time = time_of(candidate.index);  // another step may have taken the channel meanwhile
    if (time > candidate.time) return candidates_.push({time, kJoint, candidate.index});
    const graph::Meeting& step = steps_.all()[candidate.index];
    double cost = 0;
    for (const graph::ClassTask& member : step.members)
      cost = std::max(cost, ranks_[member.of_class].cost(member.task));
    for (const graph::ClassTask& member : step.members) place(member.of_class, member.task, time, cost, true);
    if (step.next != graph::Meetings::kNone) release_step(step.next);
  }

  /// Breaks a cycle of heads. Program order has none, so some task that isn't placed is ready.
  void start_first_ready() {
    std::uint32_t rank = kNoTask, task = kNoTask;
    for (std::uint32_t k = 0; k < ranks_.size(); ++k) {
      while (!ready_[k].empty() && ranks_[k].is_placed(ready_[k].top())) ready_[k].pop();
      if (!ready_[k].empty() && ready_[k].top() < task) std::tie(rank, task) = std::pair(k, ready_[k].top());
    }
    if (task == kNoTask) throw std::logic_error("the program's stages wait for each other in a cycle");
    place(rank, task, ranks_[rank].start_of(task), ranks_[rank].cost(task), false);
  }

  graph::Meetings steps_;
  std::vector<std::uint32_t> step_missing_;  // members that aren't ready, and the step before it
  std::vector<ReplayedRank> ranks_;
  std::vector<std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>> ready_;  // own, by rank
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
  std::size_t tasks_left_ = 0;
};

/// Puts the order's tasks in another sequence. Drops edges of its own that go backward in it.
void rearrange(plan::Order& order, const std::vector<graph::TaskId>& sequence) {
  std::vector<plan::Placement> by_task(sequence.size());
  for (const plan::Placement& placement : order.sequence) by_task[placement.task.index()] = placement;
  std::vector<std::size_t> place(sequence.size());
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    order.sequence[i] = by_task[sequence[i].index()];
    place[sequence[i].index()] = i;
  }
  std::erase_if(order.added_edges, [&](const graph::Edge& edge) {
    return edge.distance == 0 && place[edge.from.index()] >= place[edge.to.index()];
  });
}

}  // namespace

std::vector<plan::Order> joint_orders(graph::Classes classes, std::span<const cost::TaskCosts> costs,
                                      const std::vector<WantedSequence>& wanted, const PolicyOptions& options) {
  return Replay(classes, costs, wanted, options).run();
}

std::vector<std::vector<graph::TaskId>> joint_sequences(graph::Classes classes,
                                                        const std::vector<std::vector<graph::TaskId>>& wanted,
                                                        const PolicyOptions& options) {
  if (classes.size() == 1) return wanted;
  std::vector<cost::TaskCosts> costs;
  std::vector<WantedSequence> each;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    costs.push_back(costs_of(*classes[k], options));
    each.push_back({wanted[k], std::vector<std::uint32_t>(classes[k]->tasks().size(), 0), {plan::Reason()}});
  }
  std::vector<std::vector<graph::TaskId>> sequences;
  for (const plan::Order& order : joint_orders(classes, costs, each, options)) {
    std::vector<graph::TaskId>& sequence = sequences.emplace_back();
    for (const plan::Placement& placement : order.sequence) sequence.push_back(placement.task);
  }
  return sequences;
}

std::vector<plan::Order> joined_orders(graph::Classes classes, std::vector<plan::Order> orders,
                                       const PolicyOptions& options) {
  std::vector<std::vector<graph::TaskId>> wanted;
  for (const plan::Order& order : orders) {
    std::vector<graph::TaskId>& tasks = wanted.emplace_back();
    for (const plan::Placement& placement : order.sequence) tasks.push_back(placement.task);
  }
  const std::vector<std::vector<graph::TaskId>> sequences = joint_sequences(classes, wanted, options);
  for (std::size_t k = 0; k < orders.size(); ++k) rearrange(orders[k], sequences[k]);
  return orders;
}

}  // namespace weft::policy
