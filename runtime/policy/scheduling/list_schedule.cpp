#include "runtime/policy/scheduling/list_schedule.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <variant>

#include "base/assertions.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {

namespace {

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

graph::TaskId task_id(std::uint32_t task) {
  return graph::TaskId(std::size_t{task});
}

}  // namespace

ListScheduler::ListScheduler(ClassTasks tasks_of_classes, const PolicyOptions& options,
                             std::span<const std::int64_t> limits, Direction direction)
    : tasks_(std::move(tasks_of_classes)),
      cost_(tasks_.all_costs()),
      prefetch_edges_(tasks_.classes()),
      limits_(limits.begin(), limits.end()),
      running_(tasks_, options) {
  const std::size_t tasks = tasks_.size();
  limits_.resize(tasks_.classes(), 0);
  if (direction == Direction::backward) std::ranges::fill(limits_, 0);
  limited_ = std::ranges::any_of(limits_, [](std::int64_t limit) { return limit > 0; });
  std::vector<NodeEdge> edges = edges_of(tasks_);
  if (direction == Direction::backward) {
    for (auto& [from, to] : edges) std::swap(from, to);
  }
  for (std::size_t k = 0; k < tasks_.classes(); ++k) {
    memory_.emplace_back(tasks_.graph(k));
    if (options.gathers_ahead <= 0 || direction == Direction::backward) continue;
    prefetch_edges_[k] = prefetch_edges(tasks_.graph(k), static_cast<std::size_t>(options.gathers_ahead));
    for (const graph::Edge& edge : prefetch_edges_[k])
      edges.emplace_back(tasks_.node_of(tasks_.first(k) + edge.from.value), tasks_.first(k) + edge.to.value);
  }
  edges_ = NodeEdges(tasks, edges);
  const std::size_t lanes = tasks_.lanes().size();
  ready_.resize(lanes);
  sequence_.reserve(tasks);
  waiting_.resize(lanes);
  candidates_.reserve(tasks);
  lane_of_.resize(tasks);
  finish_.resize(tasks);
  reason_.resize(tasks);
  memory_edges_.resize(tasks_.classes());
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    (tasks_.lanes()[lane].compute ? computations_ : communications_).push_back(lane);
  }
  std::vector<std::size_t> nodes(lanes, 0);
  for (std::uint32_t node = 0; node < tasks; ++node) ++nodes[tasks_.resource_of(node)];
  for (std::size_t lane = 0; lane < lanes; ++lane) ready_[lane].reserve(nodes[lane]);
}

double ListScheduler::run(std::span<const double> priority) {
  priority_ = priority;
  chooser_ = nullptr;
  return run();
}

double ListScheduler::run(ListChooser& chooser) {
  chooser_ = &chooser;
  return run();
}

double ListScheduler::run() {
  sequence_.clear();
  for (auto& edges : memory_edges_) edges.clear();
  missing_ = edges_.missing();
  for (auto& ready : ready_) ready.clear();
  for (auto& waiting : waiting_) waiting.clear();
  running_.reset();
  if (limited_ || watches_memory_) {
    for (MemoryForecast& memory : memory_) memory.reset();
  }
  if (limited_) {
    held_.assign(cost_.size(), 0);
    last_free_.clear();
    waited_.clear();
    for (std::size_t k = 0; k < tasks_.classes(); ++k) {
      const std::size_t streams = tasks_.streams(k).size();
      last_free_.emplace_back(streams, kIdle);
      waited_.emplace_back(streams * streams, kIdle);
    }
  }
  if (tasks_.classes() > 1) {
    visits_.assign(tasks_.classes(), BufferWaits());
    for (std::size_t k = 0; k < tasks_.classes(); ++k) {
      for (auto* list : {&visits_[k].sent, &visits_[k].sent_before, &visits_[k].waited})
        list->assign(tasks_.streams(k).size(), kIdle);
    }
  }
  for (std::uint32_t i = 0; i < cost_.size(); ++i) {
    if (missing_[i] == 0 && tasks_.is_node(i)) release(i);
  }
  bool tried_all = false;
  while (true) {
    // At equal times collectives start first, although compute streams come before their streams.
    for (const auto* lanes : {&communications_, &computations_}) {
      for (const std::uint32_t lane : *lanes) {
        if (running_.idle(lane)) start_something(lane);
      }
    }
    running_.settle();
    if (running_.next() == RunningLanes::kNever) {
      if (!limited_) break;
      if (release_all_held() && !std::exchange(tried_all, true)) continue;
      if (!start_the_front()) break;
      continue;
    }
    tried_all = false;
    running_.end_next([&](std::size_t lane, std::uint32_t task) { finish(lane, task); });
  }
  assert_that("every node was started, and its memory freed at the end", [&] {
    std::size_t nodes = 0;
    for (std::uint32_t i = 0; i < cost_.size(); ++i) nodes += tasks_.is_node(i) ? 1 : 0;
    const bool watched = limited_ || watches_memory_;
    return sequence_.size() == nodes &&
           (!watched || std::ranges::all_of(memory_, [](const MemoryForecast& memory) { return memory.live() == 0; }));
  });
  return now();
}

void ListScheduler::release(std::uint32_t task) {
  std::vector<Ready>& ready = ready_[tasks_.resource_of(task)];
  ready.push_back({chooser_ == nullptr ? priority_[task] : 0, task});
  if (chooser_ == nullptr) std::push_heap(ready.begin(), ready.end());
}

bool ListScheduler::fits(std::uint32_t task) {
  if (!limited_) return true;
  for (const graph::ClassTask& member : tasks_.members(task)) {
    const std::int64_t limit = limits_[member.of_class];
    const MemoryForecast& memory = memory_[member.of_class];
    if (limit <= 0 || memory.adds(member.task) == 0 || memory.peak_with(member.task) <= limit) continue;
    held_[task] = 1;
    return false;
  }
  return true;
}

// A task that adds bytes fits only if the forecast leaves room at all places from the front to its own.
void ListScheduler::release_those_that_fit(std::size_t rank) {
  if (limits_[rank] <= 0) return;
  const std::size_t full = tasks_.first(rank) + memory_[rank].first_above(limits_[rank] - plan::kTensorAlignment);
  for (std::size_t lane = 0; lane < waiting_.size(); ++lane) {
    auto& waiting = waiting_[lane];
    if (waiting.empty()) continue;
    const std::vector<std::uint32_t>& classes = tasks_.lanes()[lane].classes;
    if (std::ranges::find(classes, rank) == classes.end()) continue;
    for (auto task = waiting.begin(); task != waiting.end() && (classes.size() > 1 || *task <= full);) {
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

bool ListScheduler::start_something(std::size_t lane) {
  const std::uint32_t resource = tasks_.lanes()[lane].resource;
  std::vector<Ready>& ready = ready_[resource];
  if (ready.empty()) return false;
  if (chooser_ != nullptr) {
    std::erase_if(ready, [&](const Ready& item) {
      const bool misfit = !fits(item.task);
      if (misfit) waiting_[resource].insert(item.task);
      return misfit;
    });
    if (ready.empty()) return false;
    candidates_.clear();
    for (const Ready& item : ready) candidates_.push_back(item.task);
    ListChooser::Choice choice;
    std::uint32_t reason = kOnlyReady;
    if (candidates_.size() > 1) {
      choice = chooser_->choose(candidates_, *this);
      reason = kLongestPath + choice.reason;
    }
    const std::uint32_t task = candidates_[choice.index];
    ready[choice.index] = ready.back();
    ready.pop_back();
    start(lane, task, reason);
    return true;
  }
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end());
    const Ready best = ready.back();
    ready.pop_back();
    if (!fits(best.task)) {
      waiting_[resource].insert(best.task);
      continue;
    }
    std::uint32_t reason = kOnlyReady;
    if (!ready.empty()) reason = ready.front().key < best.key ? kLongestPath : kTiesOnLongestPath;
    start(lane, best.task, reason);
    return true;
  }
  return false;
}

bool ListScheduler::start_the_front() {
  std::uint32_t chosen = kIdle;
  for (std::size_t k = 0; k < tasks_.classes() && chosen == kIdle; ++k) {
    const std::size_t front = memory_[k].front();
    if (front >= tasks_.graph(k).tasks().size()) continue;
    const std::uint32_t task = tasks_.node_of(tasks_.first(k) + static_cast<std::uint32_t>(front));
    const bool at_front = std::ranges::all_of(tasks_.members(task), [&](const graph::ClassTask& member) {
      return memory_[member.of_class].front() == member.task;
    });
    if (missing_[task] == 0 && at_front) chosen = task;
  }
  if (chosen == kIdle) {  // the programs of several classes don't run in step
    for (const std::vector<Ready>& ready : ready_) {
      for (const Ready& item : ready) chosen = std::min(chosen, item.task);
    }
  }
  if (chosen == kIdle) return false;
  std::vector<Ready>& ready = ready_[tasks_.resource_of(chosen)];
  const auto place = std::ranges::find_if(ready, [&](const Ready& item) { return item.task == chosen; });
  *place = ready.back();
  ready.pop_back();
  if (chooser_ == nullptr) std::make_heap(ready.begin(), ready.end());
  start(tasks_.resource_of(chosen), chosen, kOverLimit);  // all lanes are idle: a computation takes the first
  return true;
}

void ListScheduler::start(std::size_t lane, std::uint32_t task, std::uint32_t reason) {
  assert_that("a task starts on an idle lane when all that it depends on is done",
              [&] { return running_.idle(lane) && missing_[task] == 0; });
  if (limited_ && reason != kOverLimit && held_[task] != 0) reason = kHeld;
  for (const graph::ClassTask& member : tasks_.members(task)) {
    if (!visits_.empty()) wait_for_buffers(tasks_.stream_on(lane, member), member);
    if (limits_[member.of_class] > 0) wait_for_freed_memory(tasks_.stream_on(lane, member), member);
    if (limited_ || watches_memory_) memory_[member.of_class].start(member.task);
  }
  running_.start(lane, task);
  sequence_.push_back(task);
  lane_of_[task] = static_cast<std::uint32_t>(lane);
  reason_[task] = reason;
}

void ListScheduler::finish(std::size_t lane, std::uint32_t task) {
  finish_[task] = now();
  for (const graph::ClassTask& member : tasks_.members(task)) {
    if (!visits_.empty()) {
      BufferWaits& visit = visits_[member.of_class];
      if (tasks_.lanes()[lane].compute) {
        visit.last_computed = member.task;
      } else if (std::holds_alternative<graph::Send>(tasks_.graph(member.of_class).tasks()[member.task].operation)) {
        visit.sent[tasks_.stream_on(lane, member)] = member.task;
      }
    }
    if (!limited_ && !watches_memory_) continue;
    MemoryForecast& memory = memory_[member.of_class];
    const std::size_t front = memory.front();
    const bool freed = memory.finish(member.task) > 0;
    if (!limited_) continue;
    if (freed) last_free_[member.of_class][tasks_.stream_on(lane, member)] = member.task;
    if (freed || memory.front() != front) release_those_that_fit(member.of_class);
  }
  for (const std::uint32_t after : edges_.after(task)) {
    if (--missing_[after] == 0) release(after);
  }
}

// A plan reuses bytes only if its waits imply that their last user is done (plan_memory.h). This schedule knows that
// from its clock; an added edge tells the plan. The edge costs no time here, since its source is already done.
void ListScheduler::wait_for_freed_memory(std::size_t stream, const graph::ClassTask& member) {
  const MemoryForecast& memory = memory_[member.of_class];
  const std::int64_t bytes = memory.adds(member.task);
  if (bytes == 0 || memory.allocated() + bytes <= limits_[member.of_class]) return;
  const std::vector<std::uint32_t>& last_free = last_free_[member.of_class];
  for (std::size_t other = 0; other < last_free.size(); ++other) {
    std::uint32_t& waited = waited_[member.of_class][stream * last_free.size() + other];
    if (other == stream || last_free[other] == waited) continue;
    waited = last_free[other];
    memory_edges_[member.of_class].push_back(policy_edge(task_id(waited), task_id(member.task)));
  }
}

void ListScheduler::wait_for_buffers(std::size_t stream, const graph::ClassTask& member) {
  const graph::Task& task = tasks_.graph(member.of_class).tasks()[member.task];
  BufferWaits& visit = visits_[member.of_class];
  std::vector<graph::Edge>& edges = memory_edges_[member.of_class];
  const graph::Channel* channel = graph::channel_of(task.operation);
  if (channel == nullptr) {
    const bool same = visit.micro_batch == task.micro_batch && visit.stage == task.stage && visit.phase == task.phase;
    if (same) return;
    for (std::size_t s = 0; s < visit.sent.size(); ++s) {
      if (visit.sent_before[s] == kIdle || visit.sent_before[s] == visit.waited[s]) continue;
      visit.waited[s] = visit.sent_before[s];
      edges.push_back(policy_edge(task_id(visit.sent_before[s]), task_id(member.task)));
    }
    visit.sent_before = visit.sent;
    visit.computed_before = visit.last_computed;
    std::tie(visit.micro_batch, visit.stage, visit.phase) = std::tuple(task.micro_batch, task.stage, task.phase);
  } else if (std::holds_alternative<graph::Receive>(task.operation) && visit.computed_before != visit.waited[stream]) {
    visit.waited[stream] = visit.computed_before;
    edges.push_back(policy_edge(task_id(visit.computed_before), task_id(member.task)));
  }
}

std::vector<ListScheduler::Blocked> ListScheduler::blocked() const {
  std::vector<Blocked> result;
  std::vector<std::uint32_t> before(cost_.size(), kIdle), last(tasks_.lanes().size(), kIdle);
  std::uint32_t task = kIdle;
  for (const std::uint32_t next : sequence_) {
    before[next] = std::exchange(last[lane_of_[next]], next);
    if (task == kIdle || finish_[next] > finish_[task]) task = next;
  }
  while (task != kIdle) {
    std::uint32_t input = kIdle;
    tasks_.each_before(task, [&](std::uint32_t from) {
      if (input == kIdle || finish_[from] > finish_[input]) input = from;
    });
    const std::uint32_t by = before[task];
    const bool waited = by != kIdle && (input == kIdle || finish_[by] > finish_[input]);
    if (waited) result.push_back({task, by});
    task = waited ? by : input;
  }
  return result;
}

std::optional<double> ListScheduler::end_of_collectives(std::uint32_t task) const {
  std::optional<double> end;
  for (const std::uint32_t lane : communications_) {
    const std::vector<std::uint32_t>& classes = tasks_.lanes()[lane].classes;
    if (running_.idle(lane) || std::ranges::find(classes, tasks_.rank_of(task)) == classes.end()) continue;
    end = std::max(end.value_or(0), running_.finish(lane));
  }
  return end;
}

std::int64_t ListScheduler::frees(std::uint32_t node) const {
  std::int64_t bytes = 0;
  for (const graph::ClassTask& member : tasks_.members(node))
    bytes += memory_[member.of_class].frees(member.task) - memory_[member.of_class].adds(member.task);
  return bytes;
}

std::vector<plan::Order> ListScheduler::orders_with(std::span<const plan::Reason> reasons) const {
  std::vector<plan::Order> orders(tasks_.classes());
  for (std::size_t k = 0; k < orders.size(); ++k) {
    plan::Order& order = orders[k];
    order.streams.assign(tasks_.streams(k).begin(), tasks_.streams(k).end());
    for (const Code code : {kOnlyReady, kHeld, kOverLimit}) order.reasons.push_back({.table = &kReasons, .code = code});
    order.reasons.insert(order.reasons.end(), reasons.begin(), reasons.end());
    order.sequence.reserve(tasks_.graph(k).tasks().size());
    order.added_edges = memory_edges_[k];
    order.added_edges.insert(order.added_edges.end(), prefetch_edges_[k].begin(), prefetch_edges_[k].end());
  }
  for (const std::uint32_t node : sequence_) {
    for (const graph::ClassTask& member : tasks_.members(node)) {
      const plan::StreamId stream(tasks_.stream_on(lane_of_[node], member));
      orders[member.of_class].sequence.push_back({task_id(member.task), stream, reason_[node]});
    }
  }
  return orders;
}

std::vector<plan::Order> ListScheduler::orders(const plan::Reason& best) const {
  plan::Reason tied = best;
  ++tied.code;
  return orders_with(std::array{best, tied});
}

std::vector<plan::Order> ListScheduler::orders(const ListChooser& chooser) const {
  return orders_with(chooser.reasons());
}

}  // namespace weft::policy
