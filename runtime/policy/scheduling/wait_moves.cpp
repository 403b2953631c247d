#include "runtime/policy/scheduling/wait_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr double kShorterByWaits = 1e-10;  // a step is shorter by at least this share
constexpr double kLonger = 1e-9;           // a task takes longer than alone by at least this share
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// `to` starts after `from` is done.
struct WaitPair {
  std::uint32_t from = 0, to = 0;
  friend bool operator<(const WaitPair& a, const WaitPair& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  }
};

/// Plays the queues of some orders, with further waits.
class WaitPlayer {
 public:
  WaitPlayer(const ClassTasks& tasks, std::span<const plan::Order> orders, const PolicyOptions& options)
      : tasks_(tasks),
        running_(tasks, options),
        edges_(tasks.size(), edges_of(tasks, orders)),
        queues_(tasks.lanes().size()),
        lane_of_(tasks.size(), 0),
        start_(tasks.size(), 0),
        finish_(tasks.size(), 0) {
    for (std::size_t k = 0; k < orders.size(); ++k) {
      for (const plan::Placement& placement : orders[k].sequence) {
        const std::uint32_t node = tasks.first(k) + placement.task.value;
        if (!tasks.is_node(node)) continue;
        lane_of_[node] = tasks.lane_of(k, placement.stream);
        queues_[lane_of_[node]].push_back(node);
      }
    }
  }

  /// Returns the makespan; infinity if the step would be as long as `limit`, or would never end.
  double play(const std::set<WaitPair>& waits, double limit) {
    std::vector<std::uint32_t> missing = edges_.missing();
    std::map<std::uint32_t, std::vector<std::uint32_t>> after;
    for (const WaitPair& wait : waits) {
      ++missing[wait.to];
      after[wait.from].push_back(wait.to);
    }
    running_.reset();
    sequence_.clear();
    std::vector<std::size_t> next(queues_.size(), 0);
    for (;;) {
      for (std::size_t lane = 0; lane < queues_.size(); ++lane) {
        if (!running_.idle(lane) || next[lane] == queues_[lane].size()) continue;
        const std::uint32_t node = queues_[lane][next[lane]];
        if (missing[node] > 0) continue;
        ++next[lane];
        start_[node] = running_.now();
        sequence_.push_back(node);
        running_.start(lane, node);
      }
      running_.settle();
      if (running_.next() == RunningLanes::kNever) break;
      if (running_.next() >= limit) return kInfinity;
      running_.end_next([&](std::size_t, std::uint32_t node) {
        finish_[node] = running_.now();
        for (const std::uint32_t then : edges_.after(node)) --missing[then];
        if (const auto held = after.find(node); held != after.end()) {
          for (const std::uint32_t then : held->second) --missing[then];
        }
      });
    }
    for (std::size_t lane = 0; lane < queues_.size(); ++lane) {
      if (next[lane] < queues_[lane].size()) return kInfinity;
    }
    return running_.now();
  }

  bool contends() const { return running_.contends(); }
  // Of the last step that was played to its end:
  double start(std::uint32_t node) const { return start_[node]; }
  double finish(std::uint32_t node) const { return finish_[node]; }
  /// The nodes by their starts.
  const std::vector<std::uint32_t>& sequence() const { return sequence_; }

  const NodeEdges& edges() const { return edges_; }
  std::span<const std::uint32_t> queue(std::size_t lane) const { return queues_[lane]; }
  std::uint32_t lane_of(std::uint32_t node) const { return lane_of_[node]; }

 private:
  const ClassTasks& tasks_;
  RunningLanes running_;
  NodeEdges edges_;
  std::vector<std::vector<std::uint32_t>> queues_;  // by lane
  std::vector<std::uint32_t> lane_of_;
  std::vector<double> start_, finish_;
  std::vector<std::uint32_t> sequence_;
};

/// A task's name without its numbers, its layer and its micro-batch: tasks that differ in these alone are alike.
struct AlikeTask {
  std::uint32_t of_class = 0;
  std::string name;
  std::int32_t layer = 0, micro_batch = 0;
  friend bool operator<(const AlikeTask& a, const AlikeTask& b) {
    return std::tie(a.of_class, a.name, a.layer, a.micro_batch) < std::tie(b.of_class, b.name, b.layer, b.micro_batch);
  }
};

AlikeTask alike_task(const ClassTasks& tasks, std::uint32_t node) {
  const graph::Task& task = tasks.task(node);
  AlikeTask alike{tasks.rank_of(node), {}, task.layer, task.micro_batch};
  for (const char letter : task.name) {
    if (letter < '0' || letter > '9') alike.name.push_back(letter);
  }
  return alike;
}

bool of_one_class(const ClassTasks& tasks, std::uint32_t one, std::uint32_t other) {
  return std::ranges::any_of(tasks.members(one), [&](const graph::ClassTask& member) {
    const auto same = [&](const graph::ClassTask& each) { return each.of_class == member.of_class; };
    return std::ranges::any_of(tasks.members(other), same);
  });
}

class WaitSearch {
 public:
  WaitSearch(const ClassTasks& tasks, const std::vector<plan::Order>& orders, const PolicyOptions& options,
             std::int64_t tries, const std::function<bool(const std::vector<plan::Order>&)>& accepts)
      : tasks_(tasks), orders_(orders), player_(tasks, orders, options), tries_(tries), accepts_(accepts) {
    for (std::uint32_t node = 0; node < tasks.size(); ++node) {
      if (!tasks.is_node(node)) continue;
      const auto [found, is_new] = known_.try_emplace(alike_task(tasks, node), node);
      if (!is_new) found->second = kSeveral;
    }
    best_ = player_.play({}, kInfinity);
    sequence_ = player_.sequence();
  }

  HeldBack search() {
    for (bool changed = player_.contends(); changed && tries_ > 0;) {
      changed = false;
      while (improve()) changed = true;
      tried_.clear();  // what didn't help before may help now
    }
    const std::set<WaitPair> all = waits_;
    for (const WaitPair& pair : all) {
      if (tries_ <= 0) break;
      std::set<WaitPair> fewer = waits_;
      fewer.erase(pair);
      take(std::move(fewer), best_ * (1 + kShorterByWaits));
    }
    if (waits_.empty()) return {orders_, 0, best_};
    HeldBack result{orders_of(waits_, sequence_), waits_.size(), best_};
    for (plan::Order& order : result.orders) {
      for (plan::Reason& reason : order.reasons) {
        if (!reason.selection) continue;
        reason.selection->makespan_ns = best_;
        reason.selection->order += fmt::format(", {} held back", waits_.size());
      }
    }
    return result;
  }

 private:
  static constexpr std::uint32_t kSeveral = UINT32_MAX;  // tasks of one name

  /// Makes the step shorter by the first pair that does.
  bool improve() {
    for (const WaitPair& pair : candidates()) {
      if (tries_ <= 0) return false;
      if (!tried_.insert(pair).second) continue;
      const std::vector<WaitPair> everywhere = in_all_layers(pair);
      if (add(everywhere) || (everywhere.size() > 1 && tries_ > 0 && add({pair}))) return true;
    }
    return false;
  }

  bool add(const std::vector<WaitPair>& pairs) {
    std::set<WaitPair> more = waits_;
    more.insert(pairs.begin(), pairs.end());
    return more.size() > waits_.size() && take(std::move(more), best_ * (1 - kShorterByWaits));
  }

  bool take(std::set<WaitPair> waits, double limit) {
    --tries_;
    const double makespan = player_.play(waits, limit);
    if (makespan == kInfinity) return false;
    if (accepts_ && !accepts_(orders_of(waits, player_.sequence()))) return false;
    waits_ = std::move(waits);
    best_ = makespan;
    sequence_ = player_.sequence();
    return true;
  }

  /// The pair, and those like it in all layers and micro-batches, where names tell which tasks these are.
  std::vector<WaitPair> in_all_layers(const WaitPair& pair) const {
    const AlikeTask from = alike_task(tasks_, pair.from), to = alike_task(tasks_, pair.to);
    std::vector<WaitPair> pairs = {pair};
    for (const auto& [alike, node] : known_) {
      if (alike.of_class != to.of_class || alike.name != to.name || node == kSeveral || node == pair.to) continue;
      AlikeTask other = from;
      if (from.layer >= 0) other.layer = alike.layer + (from.layer - to.layer);
      if (from.micro_batch >= 0) other.micro_batch = alike.micro_batch + (from.micro_batch - to.micro_batch);
      const auto found = known_.find(other);
      if (found == known_.end() || found->second == kSeveral || found->second == node) continue;
      if (of_one_class(tasks_, found->second, node)) pairs.push_back({found->second, node});
    }
    return pairs;
  }

  /// By node: how late it may start so that the step is no longer, with the times that tasks took.
  std::vector<double> latest_starts() const {
    std::vector<double> latest(tasks_.size(), kInfinity);
    std::vector<std::uint32_t> following(tasks_.lanes().size(), UINT32_MAX);
    for (auto at = sequence_.rbegin(); at != sequence_.rend(); ++at) {
      double end = best_;
      for (const std::uint32_t after : player_.edges().after(*at)) end = std::min(end, latest[after]);
      for (auto wait = waits_.lower_bound({*at, 0}); wait != waits_.end() && wait->from == *at; ++wait)
        end = std::min(end, latest[wait->to]);
      std::uint32_t& then = following[player_.lane_of(*at)];
      if (then != UINT32_MAX) end = std::min(end, latest[then]);
      then = *at;
      latest[*at] = end - (player_.finish(*at) - player_.start(*at));
    }
    return latest;
  }

  /// Pairs of a task without slack that others slow down, and one of these others; the most promising first.
  std::vector<WaitPair> candidates() {
    player_.play(waits_, kInfinity);  // its times may be of a change that wasn't taken
    const std::vector<double> latest = latest_starts();
    std::vector<std::pair<double, WaitPair>> scored;
    for (const std::uint32_t urgent : sequence_) {
      const double begin = player_.start(urgent), end = player_.finish(urgent);
      const double took = end - begin, alone = tasks_.cost(urgent);
      if (latest[urgent] > begin + kLonger * best_ || took <= alone * (1 + kLonger)) continue;
      const double lost = 1 - alone / took;
      for (std::size_t lane = 0; lane < tasks_.lanes().size(); ++lane) {
        if (lane == player_.lane_of(urgent)) continue;
        const std::span<const std::uint32_t> queue = player_.queue(lane);
        auto other =
            std::ranges::partition_point(queue, [&](std::uint32_t node) { return player_.finish(node) <= begin; });
        for (; other != queue.end() && player_.start(*other) < end; ++other) {
          const double overlap = std::min(end, player_.finish(*other)) - std::max(begin, player_.start(*other));
          if (overlap <= 0 || latest[*other] <= player_.start(*other) + kLonger * best_) continue;
          if (!of_one_class(tasks_, urgent, *other)) continue;
          const double late = std::max(0.0, end - lost * overlap - latest[*other]);
          scored.push_back({late - lost * overlap, {urgent, *other}});
        }
      }
    }
    std::ranges::sort(scored);
    std::vector<WaitPair> pairs;
    for (const auto& [score, pair] : scored) pairs.push_back(pair);
    return pairs;
  }

  std::vector<plan::Order> orders_of(const std::set<WaitPair>& waits,
                                     const std::vector<std::uint32_t>& sequence) const {
    std::vector<plan::Order> orders = orders_;
    std::vector<plan::Placement> placed(tasks_.size());
    for (std::size_t k = 0; k < orders.size(); ++k) {
      for (const plan::Placement& placement : orders[k].sequence)
        placed[tasks_.first(k) + placement.task.value] = placement;
      orders[k].sequence.clear();
    }
    for (const WaitPair& wait : waits) {
      for (const graph::ClassTask& member : tasks_.members(wait.to)) {
        plan::Order& order = orders[member.of_class];
        plan::Reason reason{
            .table = &kWaitReasons, .code = kHeldBack, .numbers = {tasks_.members(wait.from).front().task}};
        if (const plan::Selection* selection = plan::selection_of(order.reasons)) reason.selection = *selection;
        placed[tasks_.first(member.of_class) + member.task].reason = static_cast<std::uint32_t>(order.reasons.size());
        order.reasons.push_back(std::move(reason));
      }
      add_wait(tasks_, wait.from, wait.to, orders);
    }
    for (const std::uint32_t node : sequence) {
      for (const graph::ClassTask& member : tasks_.members(node))
        orders[member.of_class].sequence.push_back(placed[tasks_.first(member.of_class) + member.task]);
    }
    return orders;
  }

  const ClassTasks& tasks_;
  const std::vector<plan::Order>& orders_;
  WaitPlayer player_;
  std::int64_t tries_;
  const std::function<bool(const std::vector<plan::Order>&)>& accepts_;
  std::map<AlikeTask, std::uint32_t> known_;
  std::set<WaitPair> waits_, tried_;
  std::vector<std::uint32_t> sequence_;  // of the best
  double best_ = 0;
};

}  // namespace

void add_wait(const ClassTasks& tasks, std::uint32_t from, std::uint32_t to, std::span<plan::Order> orders) {
  for (const graph::ClassTask& before : tasks.members(from)) {
    for (const graph::ClassTask& after : tasks.members(to)) {
      if (before.of_class != after.of_class) continue;
      orders[before.of_class].added_edges.push_back(
          {graph::TaskId(std::size_t{before.task}), graph::TaskId(std::size_t{after.task}),
           graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
      return;
    }
  }
}

HeldBack hold_back(const ClassTasks& tasks, const std::vector<plan::Order>& orders, const PolicyOptions& options,
                   std::int64_t tries, const std::function<bool(const std::vector<plan::Order>&)>& accepts) {
  return WaitSearch(tasks, orders, options, tries, accepts).search();
}

}  // namespace weft::policy
