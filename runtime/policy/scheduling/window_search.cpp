#include "runtime/policy/scheduling/window_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "graph/analysis.h"

namespace weft::policy {
namespace {

constexpr std::size_t kCheckpoints = 64;
constexpr double kSameNs = 1e-3;    // states whose remaining times differ by less are the same
constexpr double kShorter = 1e-10;  // an order is shorter by at least this share
constexpr double kNever = RunningLanes::kNever;

/// Tasks of one class that lead to no other, take the same time and slow others down equally may change places.
std::vector<std::uint32_t> interchangeable(const ClassTasks& tasks, const NodeEdges& edges) {
  std::vector<std::uint32_t> same_as(tasks.size());
  std::map<std::tuple<std::string_view, double, double, double, double>, std::uint32_t> known;
  for (std::uint32_t task = 0; task < same_as.size(); ++task) {
    same_as[task] = task;
    if (!edges.after(task).empty() || tasks.members(task).size() > 1) continue;
    const auto [of_class, own] = tasks.members(task).front();
    const cost::TaskCosts& costs = tasks.costs()[of_class];
    const auto key = std::tuple(graph::kind_name(tasks.task(task).operation), costs.ns[own], costs.cpu_ns[own],
                                costs.on_link()[own], costs.beside_ns.empty() ? 0 : costs.beside_ns[own]);
    same_as[task] = known.try_emplace(key, task).first->second;
  }
  return same_as;
}

/// Of the nodes of all classes.
graph::CriticalPath paths_of(const ClassTasks& tasks) {
  graph::CriticalPath path;
  path.head.assign(tasks.size(), 0);
  path.tail.assign(tasks.size(), 0);
  const std::vector<std::uint32_t> order = tasks.topological_order();
  for (const std::uint32_t node : order) {
    const double end = path.head[node] + tasks.cost(node);
    path.length = std::max(path.length, end);
    tasks.each_after(node, PathEdges::completing,
                     [&](std::uint32_t after) { path.head[after] = std::max(path.head[after], end); });
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    double& tail = path.tail[*node];
    tasks.each_after(*node, PathEdges::completing,
                     [&](std::uint32_t after) { tail = std::max(tail, tasks.cost(after) + path.tail[after]); });
  }
  return path;
}

/// The longest paths out of a class's tasks.
std::vector<double> tails_of(const ClassTasks& tasks, std::size_t of_class, std::span<const double> tail) {
  std::vector<double> own;
  for (std::uint32_t i = 0; i < tasks.graph(of_class).tasks().size(); ++i)
    own.push_back(tail[tasks.node_of(tasks.first(of_class) + i)]);
  return own;
}

void append_bytes(std::string& key, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) key.push_back(static_cast<char>(value >> (8 * byte)));
}

double root_bound(const ClassTasks& tasks, std::span<const double> cost, std::span<const std::uint32_t> lane_of,
                  const graph::CriticalPath& path, std::span<const RemainingWork> work) {
  double bound = path.length;
  std::vector<double> first(tasks.classes(), kNever);  // computation's head
  std::vector<std::vector<graph::TaskId>> of_lane(tasks.lanes().size());
  for (std::uint32_t task = 0; task < tasks.size(); ++task) {
    if (!tasks.is_node(task)) continue;
    of_lane[lane_of[task]].emplace_back(std::size_t{task});
    if (!tasks.lanes()[lane_of[task]].compute || cost[task] == 0) continue;
    first[tasks.rank_of(task)] = std::min(first[tasks.rank_of(task)], path.head[task]);
  }
  for (std::size_t l = 0; l < of_lane.size(); ++l) {
    const auto with_its_tasks =
        std::ranges::count(tasks.lanes(), tasks.lanes()[l].resource, &ClassTasks::Lane::resource);
    if (with_its_tasks > 1) continue;  // a task may run on another stream
    bound = std::max(bound, graph::one_machine_bound(of_lane[l], cost, path));
  }
  for (std::size_t k = 0; k < work.size(); ++k) {
    bound = std::max(bound, work[k].least(work[k].all()));
    if (first[k] != kNever) bound = std::max(bound, work[k].least(work[k].all(), first[k]));
  }
  return bound;
}

}  // namespace

WindowSearch::WindowSearch(ClassTasks tasks, const PolicyOptions& options, std::vector<plan::Order> start,
                           Accepts accepts)
    : tasks_(std::move(tasks)),
      start_(std::move(start)),
      accepts_(std::move(accepts)),
      cost_(tasks_.all_costs()),
      lane_of_(cost_.size()),
      first_place_(cost_.size()),
      running_(tasks_, options),
      place_(cost_.size()),
      ends_(cost_.size(), 0),
      queue_tail_(cost_.size(), 0),
      lanes_(tasks_.lanes().size()),
      in_window_(cost_.size(), 0),
      placed_(cost_.size(), 0),
      of_window_(lanes_.size()),
      window_tail_(cost_.size(), 0) {
  std::vector<std::size_t> size(lanes_.size(), 0);
  for (std::size_t k = 0; k < start_.size(); ++k) {
    for (const plan::Placement& placement : start_[k].sequence) {
      const std::uint32_t task = tasks_.first(k) + placement.task.value;
      if (!tasks_.is_node(task)) continue;  // its first member places it
      sequence_.push_back(task);
      lane_of_[task] = tasks_.lane_of(k, placement.stream);
      first_place_[task] = size[lane_of_[task]]++;
    }
  }
  std::vector<NodeEdge> edges = edges_of(tasks_, start_);
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  successors_ = NodeEdges(cost_.size(), edges);
  for (auto& [from, to] : edges) std::swap(from, to);
  predecessors_ = NodeEdges(cost_.size(), edges);
  same_as_ = interchangeable(tasks_, successors_);
  const graph::CriticalPath path = paths_of(tasks_);
  tail_ = path.tail;
  for (std::size_t k = 0; k < tasks_.classes(); ++k)
    work_.emplace_back(tasks_.graph(k), tasks_.costs()[k], options, tails_of(tasks_, k, tail_));
  bound_ = root_bound(tasks_, cost_, lane_of_, path, work_);
  clock_ = static_cast<std::size_t>(std::ranges::max_element(size) - size.begin());
  simulate_incumbent();
}

void WindowSearch::save(State& state) const {
  running_.save(state.running);
  state.next = next_;
  state.committed = committed_;
  state.sums = sums_;
  state.ended = ended_.size();
  state.started = started_.size();
}

void WindowSearch::restore(const State& state) {
  running_.restore(state.running);
  next_ = state.next;
  committed_ = state.committed;
  sums_ = state.sums;
  for (; ended_.size() > state.ended; ended_.pop_back()) {
    for (const std::uint32_t after : successors_.after(ended_.back())) ++missing_[after];
  }
  started_.resize(state.started);
}

void WindowSearch::start(std::size_t lane, std::uint32_t task) {
  running_.start(lane, task);
  take(sums_, task, 1);
  ++next_[lane];
  committed_[lane] = kNone;
  ++nodes_;
  if (in_window_[task] != 0) started_.push_back(task);
}

void WindowSearch::take(std::vector<RemainingWork::Sums>& sums, std::uint32_t task, double part) const {
  for (const graph::ClassTask& member : tasks_.members(task))
    work_[member.of_class].take(sums[member.of_class], member.task, part);
}

void WindowSearch::end_next() {
  running_.end_next([&](std::size_t, std::uint32_t task) {
    ended_.push_back(task);
    for (const std::uint32_t after : successors_.after(task)) --missing_[after];
  });
}

/// From `sequence_`, whose restrictions are the queues.
void WindowSearch::simulate_incumbent() {
  lanes_.assign(lanes_.size(), {});
  next_.assign(lanes_.size(), 0);
  committed_.assign(lanes_.size(), kNone);
  for (const std::uint32_t task : sequence_) lanes_[lane_of_[task]].queue.push_back(task);
  missing_ = successors_.missing();
  running_.reset();
  sums_.clear();
  for (const RemainingWork& work : work_) sums_.push_back(work.all());
  ended_.clear();
  started_.clear();
  checkpoints_.clear();
  passed_.assign(sequence_.empty() ? 0 : lanes_[clock_].queue.size(), {});
  std::vector<std::uint32_t> sequence;
  const std::size_t apart = std::max<std::size_t>(1, sequence_.size() / kCheckpoints);
  for (;;) {
    if (sequence.size() >= checkpoints_.size() * apart) {
      checkpoints_.push_back({State(), missing_});
      save(checkpoints_.back().state);
      checkpoints_.back().state.ended = checkpoints_.back().state.started = 0;
    }
    bool clock = false;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (!running_.idle(l) || is_over(l)) continue;
      const std::uint32_t task = lanes_[l].queue[next_[l]];
      if (missing_[task] > 0) continue;
      start(l, task);
      sequence.push_back(task);
      clock = clock || l == clock_;
    }
    if (clock) {
      Passed& passed = passed_[next_[clock_] - 1];
      passed.now = running_.now();
      passed.next = next_;
      for (std::size_t l = 0; l < lanes_.size(); ++l)
        passed.remaining.push_back(running_.idle(l) ? -1 : running_.remaining(l));
    }
    running_.settle();
    if (running_.next() == kNever) break;
    const std::size_t before = ended_.size();
    end_next();
    for (std::size_t i = before; i < ended_.size(); ++i) ends_[ended_[i]] = running_.now();
  }
  if (sequence.size() != sequence_.size()) throw std::logic_error("an order deadlocks");
  makespan_ = running_.now();
  sequence_ = std::move(sequence);
  for (std::uint32_t i = 0; i < sequence_.size(); ++i) place_[sequence_[i]] = i;
  std::vector<std::uint32_t> following(lanes_.size(), kNone);  // the task that follows in the queue
  for (std::size_t i = sequence_.size(); i-- > 0;) {
    const std::uint32_t task = sequence_[i];
    double& tail = queue_tail_[task] = 0;
    const auto follow = [&](std::uint32_t next) { tail = std::max(tail, cost_[next] + queue_tail_[next]); };
    for (const std::uint32_t after : successors_.after(task)) follow(after);
    if (following[lane_of_[task]] != kNone) follow(following[lane_of_[task]]);
    following[lane_of_[task]] = task;
  }
}

double WindowSearch::set_window(std::size_t first, std::size_t count) {
  first_ = first;
  std::ranges::fill(in_window_, 0);
  std::ranges::fill(placed_, 0);
  for (std::size_t l = 0; l < lanes_.size(); ++l) of_window_[l].clear();
  const std::span<const std::uint32_t> window = std::span(sequence_).subspan(first, count);
  for (const std::uint32_t task : window) {
    in_window_[task] = 1;
    of_window_[lane_of_[task]].push_back(task);
  }
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    const auto before =
        std::ranges::partition_point(lane.queue, [&](std::uint32_t task) { return place_[task] < first; });
    lane.begin = static_cast<std::size_t>(before - lane.queue.begin());
    lane.end = lane.begin + of_window_[l].size();
  }
  for (std::size_t i = count; i-- > 0;) {
    const std::uint32_t task = window[i];
    const Lane& lane = lanes_[lane_of_[task]];
    double& tail = window_tail_[task] = 0;
    const auto follow = [&](std::uint32_t next) {
      tail = std::max(tail, cost_[next] + (in_window_[next] != 0 ? window_tail_[next] : queue_tail_[next]));
    };
    for (const std::uint32_t after : successors_.after(task)) follow(after);
    if (lane.end < lane.queue.size()) follow(lane.queue[lane.end]);
  }
  double earliest = kNever;
  for (const std::uint32_t task : window) {
    const Lane& lane = lanes_[lane_of_[task]];
    double ready = lane.begin == 0 ? 0 : ends_[lane.queue[lane.begin - 1]];
    for (const std::uint32_t before : predecessors_.after(task)) {
      if (in_window_[before] == 0) ready = std::max(ready, ends_[before]);
    }
    earliest = std::min(earliest, ready);
  }
  return earliest;
}

double WindowSearch::least_end() {
  const double now = running_.now();
  sums_now_ = sums_;
  double least = 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    double free = now;
    if (!running_.idle(l)) {
      const std::uint32_t task = running_.node(l);
      const double remaining = running_.remaining(l);
      free += remaining;
      if (cost_[task] > 0) take(sums_now_, task, -remaining / cost_[task]);
      least = std::max(least, free + (in_window_[task] != 0 ? window_tail_[task] : tail_[task]));
    }
    if (in_window(l)) {
      double work = 0, tail = kNever;
      const auto add = [&](std::uint32_t task) {
        work += cost_[task];
        tail = std::min(tail, window_tail_[task]);
        least = std::max(least, free + cost_[task] + window_tail_[task]);
      };
      for (const std::uint32_t task : of_window_[l]) {
        if (placed_[task] == 0 || task == committed_[l]) add(task);
      }
      least = std::max(least, free + work + tail);
    } else if (next_[l] >= lane.end && !is_over(l)) {
      const std::uint32_t task = lane.queue[next_[l]];
      least = std::max(least, free + cost_[task] + queue_tail_[task]);
    }
  }
  for (std::size_t k = 0; k < work_.size(); ++k) least = std::max(least, now + work_[k].least(sums_now_[k]));
  return least;
}

bool WindowSearch::passed(double& makespan) const {
  const Passed& other = passed_[next_[clock_] - 1];
  if (other.next.empty()) return false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    if (next_[l] != other.next[l] || next_[l] < lanes_[l].end) return false;
    const double remaining = running_.idle(l) ? -1 : running_.remaining(l);
    if (std::abs(remaining - other.remaining[l]) > kSameNs) return false;
    // The same place in a queue may hold another task of the window.
    if (!running_.idle(l) && in_window_[running_.node(l)] != 0) return false;
  }
  makespan = makespan_ + (running_.now() - other.now);
  return true;
}

bool WindowSearch::seen_before() {
  std::string key;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    append_bytes(key, next_[l]);
    append_bytes(key, committed_[l]);
    append_bytes(key, running_.idle(l) ? kNone : running_.node(l));
    append_bytes(key, running_.idle(l) ? 0 : static_cast<std::uint64_t>(running_.remaining(l) / kSameNs));
    for (const std::uint32_t task : of_window_[l]) key.push_back(static_cast<char>(placed_[task]));
  }
  const auto [found, is_new] = seen_.try_emplace(std::move(key), running_.now());
  if (!is_new && found->second <= running_.now()) return true;
  found->second = running_.now();
  return false;
}

void WindowSearch::take_leaf(double makespan) {
  if (makespan >= shortest_ * (1 - kShorter)) return;
  std::vector<std::uint32_t> sequence = sequence_;
  std::ranges::copy(started_, sequence.begin() + static_cast<std::ptrdiff_t>(first_));
  if (accepts_ && !accepts_(orders_of(sequence, {}))) {
    complete_ = false;
    return;
  }
  shortest_ = makespan;
  shortest_window_ = started_;
}

/// Runs on until a lane has a choice, and returns the lane; nullopt at the end or if nothing shorter can follow.
std::optional<std::size_t> WindowSearch::advance() {
  for (;;) {
    if (nodes_ > most_nodes_) {
      complete_ = false;
      return std::nullopt;
    }
    bool clock = false;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (!running_.idle(l) || is_over(l)) continue;
      const bool chooses = in_window(l);
      if (chooses && committed_[l] == kNone) {
        const auto ready = [&](std::uint32_t task) { return placed_[task] == 0 && missing_[task] == 0; };
        if (std::ranges::any_of(of_window_[l], ready)) return l;
        continue;
      }
      const std::uint32_t task = chooses ? committed_[l] : lanes_[l].queue[next_[l]];
      if (missing_[task] > 0) continue;
      start(l, task);
      clock = clock || l == clock_;
    }
    if (double makespan = 0; clock && left_in_window_ == 0 && passed(makespan)) {
      take_leaf(makespan);
      return std::nullopt;
    }
    running_.settle();
    if (running_.next() == kNever) {
      bool all = true;
      for (std::size_t l = 0; l < lanes_.size(); ++l) all = all && is_over(l);
      if (all) take_leaf(running_.now());
      return std::nullopt;
    }
    if (least_end() >= shortest_ * (1 - kShorter)) return std::nullopt;
    end_next();
  }
}

bool WindowSearch::choice_is_new(std::size_t lane, std::uint32_t task) const {
  for (const std::uint32_t before : predecessors_.after(task)) {
    if (in_window_[before] != 0 && placed_[before] == 0 && lane_of_[before] == lane) return false;  // it would deadlock
  }
  for (const std::uint32_t other : of_window_[lane]) {
    if (other == task) break;
    if (placed_[other] == 0 && same_as_[other] == same_as_[task] && missing_[other] == 0 && missing_[task] == 0)
      return false;
  }
  return true;
}

void WindowSearch::decide(std::size_t lane, std::size_t depth) {
  if (seen_before()) return;
  if (states_.size() <= depth) states_.resize(depth + 1);
  save(states_[depth]);
  for (std::size_t i = 0; i < of_window_[lane].size(); ++i) {
    const std::uint32_t task = of_window_[lane][i];
    if (placed_[task] != 0 || !choice_is_new(lane, task)) continue;
    ++nodes_;  // choices of tasks that can't start yet count, too
    placed_[task] = 1;
    --left_in_window_;
    if (missing_[task] == 0) {
      start(lane, task);
    } else {
      committed_[lane] = task;
    }
    descend(depth + 1);
    restore(states_[depth]);
    placed_[task] = 0;
    ++left_in_window_;
    if (nodes_ > most_nodes_) return;
  }
}

void WindowSearch::descend(std::size_t depth) {
  if (const std::optional<std::size_t> lane = advance()) decide(*lane, depth);
}

WindowSearch::Outcome WindowSearch::search(std::size_t first, std::size_t count, std::int64_t nodes) {
  const double earliest = set_window(first, count);
  const Checkpoint* from = &checkpoints_.front();
  for (const Checkpoint& each : checkpoints_) {
    if (each.state.running.engine.now < earliest) from = &each;
  }
  ended_.clear();
  started_.clear();
  missing_ = from->missing;
  restore(from->state);
  left_in_window_ = count;
  seen_.clear();
  shortest_ = makespan_;
  shortest_window_.clear();
  complete_ = true;
  nodes_ = 0;
  most_nodes_ = nodes;
  descend(0);
  Outcome outcome{.complete = complete_, .nodes = nodes_};
  if (shortest_window_.empty()) return outcome;
  const std::vector<std::uint32_t> before = sequence_;
  const double makespan = makespan_;
  std::ranges::copy(shortest_window_, sequence_.begin() + static_cast<std::ptrdiff_t>(first));
  simulate_incumbent();
  if (makespan_ < makespan) {
    outcome.shorter = true;
    return outcome;
  }
  sequence_ = before;  // shorter by rounding alone
  simulate_incumbent();
  return outcome;
}

std::vector<plan::Order> WindowSearch::orders_of(std::span<const std::uint32_t> sequence,
                                                 const plan::Reason& moved) const {
  std::vector<plan::Order> orders;
  std::vector<std::uint32_t> reason_of(cost_.size());
  for (std::size_t k = 0; k < start_.size(); ++k) {
    for (const plan::Placement& placement : start_[k].sequence)
      reason_of[tasks_.first(k) + placement.task.value] = placement.reason;
    orders.push_back({start_[k].streams, {}, start_[k].added_edges, start_[k].reasons});
    orders.back().reasons.push_back(moved);
  }
  std::vector<std::size_t> place(lanes_.size(), 0);
  for (const std::uint32_t task : sequence) {
    const bool stays = first_place_[task] == place[lane_of_[task]]++;
    for (const graph::ClassTask& member : tasks_.members(task)) {
      plan::Order& order = orders[member.of_class];
      const plan::StreamId stream(tasks_.stream_on(lane_of_[task], member));
      order.sequence.push_back({graph::TaskId(std::size_t{member.task}), stream,
                                stays ? reason_of[tasks_.first(member.of_class) + member.task]
                                      : static_cast<std::uint32_t>(order.reasons.size() - 1)});
    }
  }
  return orders;
}

}  // namespace weft::policy
