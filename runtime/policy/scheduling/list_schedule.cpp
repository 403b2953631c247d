#include "runtime/policy/scheduling/list_schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "graph/analysis.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/policy/scheduling/arrangement.h"

namespace weft::policy {

namespace {

graph::Edge policy_edge(graph::TaskId from, graph::TaskId to) {
  return {from, to, graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()};
}

/// Of the gathers in the order of their first uses, each waits for the first use of the one `ahead` + 1 before it.
std::vector<graph::Edge> prefetch_edges(const graph::Graph& graph, std::size_t ahead) {
  std::vector<std::pair<graph::TaskId, graph::TaskId>> uses;  // the first use of a weight, its gather
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    if (!is_gather(graph.tasks()[i])) continue;
    const graph::TaskId reader = first_reader(graph, graph::TaskId(i));
    if (reader.valid()) uses.emplace_back(reader, graph::TaskId(i));
  }
  std::ranges::sort(uses);
  std::vector<graph::Edge> edges;
  for (std::size_t k = ahead + 1; k < uses.size(); ++k) {
    const graph::TaskId earlier = uses[k - ahead - 1].first, gather = uses[k].second;
    if (earlier < gather) edges.push_back(policy_edge(earlier, gather));
  }
  return edges;
}

}  // namespace

ListScheduler::ListScheduler(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
                             Direction direction)
    : graph_(graph),
      streams_(plan::streams_of(graph, options.compute_streams)),
      cost_(costs.ns),
      limit_(direction == Direction::forward ? options.memory_limit : 0),
      memory_(graph),
      running_(graph, costs, options, streams_) {
  const std::size_t tasks = graph.tasks().size();
  resource_.resize(tasks, 0);
  in_edges_.resize(tasks, 0);
  begin_.push_back(0);
  std::vector<std::vector<graph::TaskId>> gathers(tasks);  // by task: the gathers that wait for it
  if (options.gathers_ahead > 0 && direction == Direction::forward) {
    prefetch_edges_ = prefetch_edges(graph, static_cast<std::size_t>(options.gathers_ahead));
    for (const graph::Edge& edge : prefetch_edges_) gathers[edge.from.index()].push_back(edge.to);
  }
  for (std::size_t i = 0; i < tasks; ++i) {
    if (const graph::Channel* channel = graph::channel_of(graph.tasks()[i].operation)) {
      resource_[i] = plan::stream_of_channel(streams_, *channel).value;
    }
    const auto add = [&](graph::TaskId successor) {
      successors_.push_back(successor.value);
      ++in_edges_[successor.index()];
    };
    if (direction == Direction::forward) {
      for (const std::uint32_t index : graph.out_edges(graph::TaskId(i))) {
        if (graph.edges()[index].distance == 0) add(graph.edges()[index].to);
      }
      std::ranges::for_each(gathers[i], add);
    } else {
      for (const graph::Edge& edge : graph.in_edges(graph::TaskId(i))) {
        if (edge.distance == 0) add(edge.from);
      }
    }
    begin_.push_back(static_cast<std::uint32_t>(successors_.size()));
  }
  ready_.resize(streams_.size());
  sequence_.reserve(tasks);
  waiting_.resize(streams_.size());
  candidates_.reserve(tasks);
  stream_of_.resize(tasks);
  finish_.resize(tasks);
  reason_.resize(tasks);
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    resource_of_stream_.push_back(streams_[s].compute ? 0 : static_cast<std::uint32_t>(s));
    ready_[s].reserve(tasks);
  }
}

double ListScheduler::run(std::span<const double> priority) {
  priority_ = priority;
  chooser_ = nullptr;
  return run();
}

double ListScheduler::run(ListChooser& chooser) {
  chooser_ = &chooser;
  const double makespan = run();
  chooser_ = nullptr;
  return makespan;
}

double ListScheduler::run() {
  now_ = 0;
  sequence_.clear();
  memory_edges_.clear();
  missing_ = in_edges_;
  for (auto& ready : ready_) ready.clear();
  for (auto& waiting : waiting_) waiting.clear();
  running_.reset();
  const bool limited = limit_ > 0;
  if (limited || watches_memory_) memory_.reset();
  if (limited) {
    held_.assign(cost_.size(), 0);
    last_free_.assign(streams_.size(), kIdle);
    waited_.assign(streams_.size() * streams_.size(), kIdle);
  }
  for (std::uint32_t i = 0; i < cost_.size(); ++i) {
    if (missing_[i] == 0) release(i);
  }
  bool tried_all = false;
  const auto computes = static_cast<std::size_t>(std::ranges::count(streams_, true, &plan::Stream::compute));
  while (true) {
    // At equal times collectives start first, although compute streams come before their streams.
    for (std::size_t s = computes; s < streams_.size(); ++s) {
      if (running_.idle(s)) start_something(s);
    }
    for (std::size_t s = 0; s < computes; ++s) {
      if (running_.idle(s)) start_something(s);
    }
    running_.settle(now_);
    const double next = running_.next();
    if (next == std::numeric_limits<double>::infinity()) {
      if (!limited) return now_;
      if (release_all_held() && !std::exchange(tried_all, true)) continue;
      if (!start_the_front()) return now_;
      continue;
    }
    tried_all = false;
    now_ = next;
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      if (!running_.idle(s) && running_.finish(s) == next) finish(s);
    }
  }
}

void ListScheduler::release(std::uint32_t task) {
  std::vector<Ready>& ready = ready_[resource_[task]];
  ready.push_back({chooser_ == nullptr ? priority_[task] : 0, task});
  if (chooser_ == nullptr) std::push_heap(ready.begin(), ready.end());
}

bool ListScheduler::fits(std::uint32_t task) {
  if (limit_ <= 0) return true;
  if (memory_.adds(task) == 0 || memory_.peak_with(task) <= limit_) return true;
  held_[task] = 1;
  return false;
}

void ListScheduler::hold(std::uint32_t task) {
  waiting_[resource_[task]].insert(task);
}

// A task that adds bytes fits only if the forecast leaves room at all places from the front to its own.
void ListScheduler::release_those_that_fit() {
  const std::size_t full = memory_.first_above(limit_ - plan::kTensorAlignment);
  for (auto& waiting : waiting_) {
    for (auto task = waiting.begin(); task != waiting.end() && *task <= full;) {
      if (!fits(*task)) {
        ++task;
        continue;
      }
      release(*task);
      task = waiting.erase(task);
    }
  }
}

bool ListScheduler::release_all_held() {
  bool any = false;
  for (auto& waiting : waiting_) {
    for (const std::uint32_t task : waiting) release(task);
    any = any || !waiting.empty();
    waiting.clear();
  }
  return any;
}

bool ListScheduler::start_something(std::size_t stream) {
  std::vector<Ready>& ready = ready_[resource_of_stream_[stream]];
  if (chooser_ != nullptr) {
    std::erase_if(ready, [&](const Ready& item) {
      const bool misfit = !fits(item.task);
      if (misfit) hold(item.task);
      return misfit;
    });
    if (ready.empty()) return false;
    candidates_.clear();
    for (const Ready& item : ready) candidates_.push_back(item.task);
    ListChooser::Choice choice;
    std::uint32_t reason = kOnlyReady;
    if (candidates_.size() > 1) {
      choice = chooser_->choose(candidates_, *this);
      reason = kFirstRule + choice.reason;
    }
    const std::uint32_t task = candidates_[choice.index];
    ready[choice.index] = ready.back();
    ready.pop_back();
    start(stream, task, reason);
    return true;
  }
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end());
    const Ready best = ready.back();
    ready.pop_back();
    if (!fits(best.task)) {
      hold(best.task);
      continue;
    }
    std::uint32_t reason = kOnlyReady;
    if (!ready.empty()) reason = ready.front().key < best.key ? kFirstRule : kFirstRule + 1;
    start(stream, best.task, reason);
    return true;
  }
  return false;
}

bool ListScheduler::start_the_front() {
  const std::size_t front = memory_.front();
  if (front >= cost_.size()) return false;
  const auto task = static_cast<std::uint32_t>(front);
  std::vector<Ready>& ready = ready_[resource_[task]];
  const auto place = std::ranges::find_if(ready, [&](const Ready& item) { return item.task == task; });
  *place = ready.back();
  ready.pop_back();
  if (chooser_ == nullptr) std::make_heap(ready.begin(), ready.end());
  std::size_t stream = 0;  // all streams are idle: a computation takes the first
  while (resource_of_stream_[stream] != resource_[task]) ++stream;
  start(stream, task, kOverLimit);
  return true;
}

void ListScheduler::start(std::size_t stream, std::uint32_t task, std::uint32_t reason) {
  if (limit_ > 0) {
    if (reason != kOverLimit && held_[task] != 0) reason = kHeld;
    wait_for_freed_memory(stream, task);
  }
  if (limit_ > 0 || watches_memory_) memory_.start(task);
  running_.start(stream, task, now_);
  sequence_.push_back(task);
  stream_of_[task] = static_cast<std::uint32_t>(stream);
  reason_[task] = reason;
}

void ListScheduler::finish(std::size_t stream) {
  const std::uint32_t task = running_.end(stream);
  finish_[task] = now_;
  if (limit_ > 0) {
    const std::size_t front = memory_.front();
    const bool freed = memory_.finish(task) > 0;
    if (freed) last_free_[stream] = task;
    if (freed || memory_.front() != front) release_those_that_fit();
  } else if (watches_memory_) {
    memory_.finish(task);
  }
  for (std::uint32_t i = begin_[task]; i < begin_[task + 1]; ++i) {
    if (--missing_[successors_[i]] == 0) release(successors_[i]);
  }
}

// A plan reuses bytes only if its waits imply that their last user is done (plan_memory.h). This schedule knows that
// from its clock; an added edge tells the plan. The edge costs no time here, since its source is already done.
void ListScheduler::wait_for_freed_memory(std::size_t stream, std::uint32_t task) {
  const std::int64_t bytes = memory_.adds(task);
  if (bytes == 0 || memory_.allocated() + bytes <= limit_) return;
  for (std::size_t other = 0; other < streams_.size(); ++other) {
    std::uint32_t& waited = waited_[stream * streams_.size() + other];
    if (other == stream || last_free_[other] == waited) continue;
    waited = last_free_[other];
    memory_edges_.push_back(policy_edge(graph::TaskId(std::size_t{waited}), graph::TaskId(std::size_t{task})));
  }
}

std::vector<ListScheduler::Blocked> ListScheduler::blocked() const {
  std::vector<Blocked> result;
  std::vector<std::uint32_t> before(cost_.size(), kIdle), last(streams_.size(), kIdle);
  std::uint32_t task = kIdle;
  for (const std::uint32_t next : sequence_) {
    before[next] = std::exchange(last[stream_of_[next]], next);
    if (task == kIdle || finish_[next] > finish_[task]) task = next;
  }
  while (task != kIdle) {
    std::uint32_t input = kIdle;
    for (const graph::Edge& edge : graph_.in_edges(graph::TaskId(std::size_t{task}))) {
      if (edge.distance != 0) continue;
      if (input == kIdle || finish_[edge.from.index()] > finish_[input]) input = edge.from.value;
    }
    const std::uint32_t by = before[task];
    const bool waited = by != kIdle && (input == kIdle || finish_[by] > finish_[input]);
    if (waited) result.push_back({task, by});
    task = waited ? by : input;
  }
  return result;
}

std::optional<double> ListScheduler::end_of_collectives() const {
  std::optional<double> end;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (!running_.idle(s) && !streams_[s].compute) end = std::max(end.value_or(0), running_.finish(s));
  }
  return end;
}

plan::Order ListScheduler::order_with(std::span<const plan::Reason> reasons) const {
  plan::Order order;
  order.streams = streams_;
  order.reasons = {{.kind = plan::ReasonKind::only_ready},
                   {.kind = plan::ReasonKind::held_for_memory},
                   {.kind = plan::ReasonKind::above_memory_limit}};
  order.reasons.insert(order.reasons.end(), reasons.begin(), reasons.end());
  order.sequence.reserve(sequence_.size());
  for (const std::uint32_t task : sequence_) {
    order.sequence.push_back(
        {graph::TaskId(std::size_t{task}), plan::StreamId(std::size_t{stream_of_[task]}), reason_[task]});
  }
  order.added_edges = memory_edges_;
  order.added_edges.insert(order.added_edges.end(), prefetch_edges_.begin(), prefetch_edges_.end());
  return order;
}

plan::Order ListScheduler::order(const plan::Reason& best) const {
  plan::Reason tied = best;
  tied.kind = plan::ReasonKind::tied_ready;
  return order_with(std::array{best, tied});
}

plan::Order ListScheduler::order(const ListChooser& chooser) const {
  return order_with(chooser.reasons());
}

std::vector<double> upward_rank(const graph::Graph& graph, std::span<const double> cost) {
  std::vector<double> rank = graph::critical_path(graph, cost).tail;
  for (std::size_t i = 0; i < rank.size(); ++i) rank[i] += cost[i];
  return rank;
}

}  // namespace weft::policy
