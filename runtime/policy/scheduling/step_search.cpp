#include "runtime/policy/scheduling/step_search.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "runtime/policy/scheduling/wait_moves.h"

namespace weft::policy {
namespace {

constexpr double kSameRemaining = 1e-3;  // states whose remaining times differ by less are the same
constexpr double kShorterStep = 1e-10;   // a step is shorter by at least this share
constexpr double kOfSums = 1e-9;         // of times that two programs add up

void add_to_key(std::string& key, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) key.push_back(static_cast<char>(value >> (8 * byte)));
}

/// By node: the longest path out of it.
std::vector<double> paths_out_of(const ClassTasks& tasks, std::span<const std::uint32_t> topological) {
  std::vector<double> tail(tasks.size(), 0);
  for (auto node = topological.rbegin(); node != topological.rend(); ++node) {
    tasks.each_after(*node, PathEdges::completing, [&](std::uint32_t after) {
      tail[*node] = std::max(tail[*node], tasks.cost(after) + tail[after]);
    });
  }
  return tail;
}

std::vector<double> paths_of_class(const ClassTasks& tasks, std::size_t k, std::span<const double> tail) {
  std::vector<double> own;
  for (std::uint32_t i = 0; i < tasks.graph(k).tasks().size(); ++i)
    own.push_back(tail[tasks.node_of(tasks.first(k) + i)]);
  return own;
}

}  // namespace

StepSearch::StepSearch(const ClassTasks& tasks, const PolicyOptions& options, double makespan, Accepts accepts)
    : tasks_(tasks),
      options_(options),
      accepts_(std::move(accepts)),
      topological_(tasks.topological_order()),
      lanes_of_(tasks.lanes().size()),
      nodes_of_(tasks.lanes().size()),
      cost_(tasks.all_costs()),
      tail_(paths_out_of(tasks, topological_)),
      running_(tasks, options),
      placed_(tasks.size(), 0),
      last_on_(tasks.lanes().size(), kNone),
      head_(tasks.size(), 0),
      moments_(topological_.size() + 1),
      shortest_(makespan) {
  std::vector<NodeEdge> edges = edges_of(tasks);
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  successors_ = NodeEdges(tasks.size(), edges);
  for (auto& [from, to] : edges) std::swap(from, to);
  predecessors_ = NodeEdges(tasks.size(), edges);
  for (std::uint32_t l = 0; l < tasks.lanes().size(); ++l) lanes_of_[tasks.lanes()[l].resource].push_back(l);
  std::erase_if(topological_, [&](std::uint32_t number) { return !tasks.is_node(number); });
  for (const std::uint32_t node : topological_) nodes_of_[tasks.resource_of(node)].push_back(node);
  for (std::vector<std::uint32_t>& nodes : nodes_of_)
    std::ranges::stable_sort(nodes, std::greater(), [&](std::uint32_t node) { return cost_[node] + tail_[node]; });
  for (std::size_t k = 0; k < tasks.classes(); ++k)
    work_.emplace_back(tasks.graph(k), tasks.costs()[k], options, paths_of_class(tasks, k, tail_));
}

void StepSearch::save(Moment& moment) const {
  running_.save(moment.running);
  moment.sums = sums_;
  moment.ended = ended_.size();
  moment.just_ended = just_ended_;
  moment.started = started_.size();
  moment.last_on = last_on_;
}

void StepSearch::restore(const Moment& moment) {
  running_.restore(moment.running);
  sums_ = moment.sums;
  for (; ended_.size() > moment.ended; ended_.pop_back()) {
    for (const std::uint32_t after : successors_.after(ended_.back())) ++missing_[after];
  }
  just_ended_ = moment.just_ended;
  for (; started_.size() > moment.started; started_.pop_back()) placed_[started_.back().node] = 0;
  last_on_ = moment.last_on;
}

void StepSearch::take(std::uint32_t node, double part, std::vector<RemainingWork::Sums>& sums) const {
  for (const graph::ClassTask& member : tasks_.members(node))
    work_[member.of_class].take(sums[member.of_class], member.task, part);
}

/// What a task was held back for that starts now.
std::uint32_t StepSearch::waits_for(std::uint32_t node, std::size_t lane) const {
  const std::span<const std::uint32_t> now = std::span(ended_).subspan(just_ended_);
  if (now.empty()) return kNone;  // the step begins
  const auto of_lane = [&](std::uint32_t other) { return other == last_on_[lane]; };
  if (std::ranges::any_of(now, of_lane)) return kNone;
  for (const std::uint32_t before : predecessors_.after(node)) {
    if (std::ranges::find(now, before) != now.end()) return kNone;
  }
  for (const std::uint32_t other : now) {
    for (const graph::ClassTask& member : tasks_.members(node)) {
      for (const graph::ClassTask& of_other : tasks_.members(other)) {
        if (member.of_class == of_other.of_class) return other;
      }
    }
  }
  return kNobody;
}

std::optional<std::size_t> StepSearch::idle_lane(std::size_t resource) const {
  for (const std::uint32_t lane : lanes_of_[resource]) {
    if (running_.idle(lane)) return lane;
  }
  return std::nullopt;
}

void StepSearch::start(std::uint32_t node, std::size_t lane) {
  started_.push_back({node, static_cast<std::uint32_t>(lane), waits_for(node, lane)});
  running_.start(lane, node);
  take(node, 1, sums_);
  placed_[node] = 1;
  ++nodes_;
}

bool StepSearch::seen_before() {
  std::string key;
  for (const std::vector<std::uint32_t>& lanes : lanes_of_) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> running;
    for (const std::uint32_t lane : lanes) {
      if (running_.idle(lane)) continue;
      running.emplace_back(running_.node(lane), std::llround(running_.remaining(lane) / kSameRemaining));
    }
    std::ranges::sort(running);  // streams are alike
    for (const auto& [node, remaining] : running) {
      add_to_key(key, node);
      add_to_key(key, remaining);
    }
    add_to_key(key, UINT64_MAX);
  }
  key.append(placed_.begin(), placed_.end());
  const auto [found, is_new] = seen_.try_emplace(std::move(key), running_.now());
  if (!is_new && found->second <= running_.now()) return true;
  found->second = running_.now();
  return false;
}

/// No end of the step is earlier, whatever starts from now on.
double StepSearch::least_end() {
  const double now = running_.now();
  double least = now;
  sums_now_ = sums_;
  head_.assign(head_.size(), now);
  for (std::size_t r = 0; r < lanes_of_.size(); ++r) {
    if (lanes_of_[r].empty()) continue;
    double work = 0, tail = RunningLanes::kNever;
    for (const std::uint32_t lane : lanes_of_[r]) {
      if (running_.idle(lane)) continue;
      const std::uint32_t node = running_.node(lane);
      const double remaining = running_.remaining(lane);
      if (cost_[node] > 0) take(node, -remaining / cost_[node], sums_now_);
      least = std::max(least, now + remaining + tail_[node]);
      for (const std::uint32_t after : successors_.after(node)) head_[after] = std::max(head_[after], now + remaining);
      work += remaining;
      tail = std::min(tail, tail_[node]);
    }
    for (const std::uint32_t node : nodes_of_[r]) {
      if (placed_[node] != 0) continue;
      work += cost_[node];
      tail = std::min(tail, tail_[node]);
    }
    if (tail != RunningLanes::kNever)
      least = std::max(least, now + work / static_cast<double>(lanes_of_[r].size()) + tail);
  }
  for (const std::uint32_t node : topological_) {
    if (placed_[node] != 0) continue;
    const double end = head_[node] + cost_[node];
    least = std::max(least, end + tail_[node]);
    for (const std::uint32_t after : successors_.after(node)) head_[after] = std::max(head_[after], end);
  }
  for (std::size_t k = 0; k < work_.size(); ++k) least = std::max(least, now + work_[k].least(sums_now_[k]));
  return least;
}

void StepSearch::take_leaf() {
  const double makespan = running_.now();
  if (makespan >= shortest_ * (1 - kShorterStep)) return;
  const auto untold = [](const Start& each) { return each.waits_for == kNobody; };
  bool taken = std::ranges::none_of(started_, untold);
  if (taken) {
    const std::vector<plan::Order> orders = orders_of(started_, {});
    // Its plan does what was simulated, or the search is at fault and proves nothing.
    taken = timetable_of(tasks_, orders, options_).makespan <= makespan * (1 + kOfSums);
    taken = taken && (!accepts_ || accepts_(orders));
  }
  if (!taken) {
    complete_ = false;
    return;
  }
  shortest_ = makespan;
  shortest_starts_ = started_;
}

void StepSearch::run_on() {
  running_.settle();
  if (running_.next() == RunningLanes::kNever) {
    if (started_.size() == topological_.size()) take_leaf();
    return;  // else nothing would ever start again
  }
  if (least_end() >= shortest_ * (1 - kShorterStep)) return;
  just_ended_ = ended_.size();
  running_.end_next([&](std::size_t lane, std::uint32_t node) {
    last_on_[lane] = node;
    ended_.push_back(node);
    for (const std::uint32_t after : successors_.after(node)) --missing_[after];
  });
  at_moment();
}

/// All choices of the resources from this one on; of this one, of the tasks from `from` on in its list.
void StepSearch::choose(std::size_t resource, std::uint32_t from) {
  if (nodes_ > most_nodes_) {
    complete_ = false;
    return;
  }
  if (resource == nodes_of_.size()) {
    run_on();
    return;
  }
  const std::optional<std::size_t> lane = idle_lane(resource);
  for (std::uint32_t i = from; lane && i < nodes_of_[resource].size(); ++i) {
    const std::uint32_t node = nodes_of_[resource][i];
    if (placed_[node] != 0 || missing_[node] > 0) continue;
    const std::size_t depth = started_.size();
    save(moments_[depth]);
    start(node, *lane);
    choose(resource, i + 1);
    restore(moments_[depth]);
  }
  choose(resource + 1, 0);
}

void StepSearch::at_moment() {
  if (++nodes_ > most_nodes_) {
    complete_ = false;
    return;
  }
  if (!seen_before()) choose(0, 0);
}

StepSearch::Outcome StepSearch::search(std::int64_t nodes) {
  running_.reset();
  missing_ = successors_.missing();
  sums_.clear();
  for (const RemainingWork& work : work_) sums_.push_back(work.all());
  nodes_ = 0;
  most_nodes_ = nodes;
  complete_ = true;
  seen_.clear();
  at_moment();
  return {.complete = complete_, .nodes = nodes_};
}

std::vector<plan::Order> StepSearch::orders(const plan::Reason& chosen) const {
  return shortest_starts_.empty() ? std::vector<plan::Order>() : orders_of(shortest_starts_, chosen);
}

std::vector<plan::Order> StepSearch::orders_of(const std::vector<Start>& starts, const plan::Reason& chosen) const {
  std::vector<plan::Order> orders(tasks_.classes());
  for (std::size_t k = 0; k < orders.size(); ++k) {
    orders[k].streams.assign(tasks_.streams(k).begin(), tasks_.streams(k).end());
    orders[k].reasons = {chosen};
  }
  for (const Start& start : starts) {
    for (const graph::ClassTask& member : tasks_.members(start.node)) {
      const plan::StreamId stream(tasks_.stream_on(start.lane, member));
      orders[member.of_class].sequence.push_back({graph::TaskId(std::size_t{member.task}), stream, 0});
    }
    if (start.waits_for == kNone || start.waits_for == kNobody) continue;
    add_wait(tasks_, start.waits_for, start.node, orders);
  }
  return orders;
}

}  // namespace weft::policy
