#include "graph/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "base/assertions.h"
#include "graph/task_signature.h"

namespace weft::graph {

std::vector<TaskId> topological_order(const Graph& graph, std::span<const double> priority) {
  const std::size_t count = graph.tasks().size();
  if (!priority.empty() && priority.size() != count) {
    throw std::logic_error(fmt::format("{} priorities for {} tasks", priority.size(), count));
  }
  std::vector<std::uint32_t> missing(count, 0);
  for (const Edge& edge : graph.edges()) {
    if (edge.distance == 0) ++missing[edge.to.index()];
  }
  const auto later = [&](TaskId a, TaskId b) {
    if (!priority.empty() && priority[a.index()] != priority[b.index()])
      return priority[a.index()] < priority[b.index()];
    return a > b;
  };
  std::priority_queue<TaskId, std::vector<TaskId>, decltype(later)> ready(later);
  for (std::size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push(TaskId(i));
  }
  std::vector<TaskId> order;
  order.reserve(count);
  while (!ready.empty()) {
    const TaskId task = ready.top();
    ready.pop();
    order.push_back(task);
    for (const Edge& edge : graph.out_edges(task)) {
      if (edge.distance == 0 && --missing[edge.to.index()] == 0) ready.push(edge.to);
    }
  }
  assert_that("every task is in the order", [&] { return order.size() == count; });
  return order;
}

std::string why_not_topological(const Graph& graph, std::span<const TaskId> order) {
  const std::size_t count = graph.tasks().size();
  std::vector<std::size_t> position(count, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].index() >= count) return fmt::format("position {} has a task that isn't in the graph", i);
    std::size_t& known = position[order[i].index()];
    if (known != order.size()) return fmt::format("'{}' occurs twice", graph.task(order[i]).name);
    known = i;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (position[i] == order.size()) return fmt::format("'{}' is missing", graph.tasks()[i].name);
  }
  for (const Edge& edge : graph.edges()) {
    if (edge.distance != 0 || position[edge.from.index()] < position[edge.to.index()]) continue;
    return fmt::format("'{}' comes before '{}', but must come after it ({}{})", graph.task(edge.to).name,
                       graph.task(edge.from).name, to_string(edge.reason),
                       edge.tensor.valid() ? fmt::format(" of '{}'", graph.tensor(edge.tensor).name) : "");
  }
  return "";
}

CriticalPath critical_path(const Graph& graph, std::span<const double> cost) {
  const std::size_t count = graph.tasks().size();
  if (cost.size() != count) throw std::logic_error(fmt::format("{} costs for {} tasks", cost.size(), count));
  CriticalPath path;
  path.head.assign(count, 0);
  path.tail.assign(count, 0);
  // One ascending pass computes the heads, one descending pass the tails.
  assert_that("edges are sorted by target", [&] { return std::ranges::is_sorted(graph.edges(), {}, &Edge::to); });
  assert_that("no cost is negative",
              [&] { return std::ranges::none_of(cost, [](double value) { return value < 0; }); });
  const auto counts = [](const Edge& edge) { return edge.distance == 0 && edge.kind == EdgeKind::completes_before; };
  std::vector<TaskId> before(count);
  for (const Edge& edge : graph.edges()) {
    if (!counts(edge)) continue;
    const double through = path.head[edge.from.index()] + cost[edge.from.index()];
    double& head = path.head[edge.to.index()];
    TaskId& previous = before[edge.to.index()];
    if (!previous.valid() || through > head) previous = edge.from;
    head = std::max(head, through);
  }
  for (auto edge = graph.edges().rbegin(); edge != graph.edges().rend(); ++edge) {
    if (!counts(*edge)) continue;
    double& tail = path.tail[edge->from.index()];
    tail = std::max(tail, path.tail[edge->to.index()] + cost[edge->to.index()]);
  }
  TaskId last;
  for (std::size_t i = 0; i < count; ++i) {
    const double length = path.head[i] + cost[i];
    if (!last.valid() || length > path.length) {
      path.length = length;
      last = TaskId(i);
    }
  }
  for (TaskId task = last; task.valid(); task = before[task.index()]) path.tasks.push_back(task);
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

double one_machine_bound(std::span<const TaskId> tasks, std::span<const double> cost, const CriticalPath& path) {
  std::vector<TaskId> waiting;
  for (const TaskId task : tasks) {
    if (cost[task.index()] > 0) waiting.push_back(task);
  }
  std::sort(waiting.begin(), waiting.end(), [&](TaskId a, TaskId b) {
    return std::tuple(path.head[a.index()], a) < std::tuple(path.head[b.index()], b);
  });
  // Jackson's preemptive schedule: it always runs the released task with the largest tail.
  struct Released {
    double tail, remaining;
    bool operator<(const Released& other) const { return tail < other.tail; }
  };
  std::priority_queue<Released> released;
  double now = 0, bound = 0;
  for (std::size_t next = 0; next < waiting.size() || !released.empty();) {
    if (released.empty()) now = std::max(now, path.head[waiting[next].index()]);
    for (; next < waiting.size() && path.head[waiting[next].index()] <= now; ++next) {
      released.push({path.tail[waiting[next].index()], cost[waiting[next].index()]});
    }
    Released top = released.top();
    released.pop();
    const double until = next < waiting.size() ? path.head[waiting[next].index()] : now + top.remaining;
    if (now + top.remaining <= until) {
      now += top.remaining;
      bound = std::max(bound, now + top.tail);
    } else {
      top.remaining -= until - now;
      now = until;
      released.push(top);
    }
  }
  return bound;
}

Liveness liveness(const Graph& graph, std::span<const TaskId> order) {
  Liveness result;
  result.lifetimes.resize(graph.tensors().size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Access& access : graph.task(order[i]).accesses) {
      Lifetime& life = result.lifetimes[access.view.tensor.index()];
      if (life.first < 0) life.first = static_cast<std::int64_t>(i);
      life.last = static_cast<std::int64_t>(i);
    }
  }
  std::vector<std::int64_t> change(order.size() + 1, 0);
  for (std::size_t i = 0; i < result.lifetimes.size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    const Lifetime& life = result.lifetimes[i];
    if (is_state(tensor.role)) {
      result.state_bytes += tensor.bytes();
    } else if (life.first >= 0) {
      change[static_cast<std::size_t>(life.first)] += tensor.bytes();
      change[static_cast<std::size_t>(life.last) + 1] -= tensor.bytes();
    }
  }
  result.live_bytes.resize(order.size());
  std::int64_t live = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    live += change[i];
    result.live_bytes[i] = live;
    if (live > result.peak_bytes) {
      result.peak_bytes = live;
      result.peak_position = i;
    }
  }
  assert_that("the last task frees the last scratch", [&] { return live + change.back() == 0; });
  return result;
}

std::int64_t bytes_kept_at(const Graph& graph, TaskId task) {
  const std::size_t tasks = graph.tasks().size();
  std::vector<char> before(tasks, 0), after(tasks, 0);
  before[task.index()] = after[task.index()] = 1;
  for (std::size_t i = task.index() + 1; i-- > 0;) {
    if (before[i] == 0) continue;
    for (const Edge& edge : graph.in_edges(TaskId(i))) {
      if (edge.distance == 0) before[edge.from.index()] = 1;
    }
  }
  for (std::size_t i = task.index(); i < tasks; ++i) {
    if (after[i] == 0) continue;
    for (const Edge& edge : graph.out_edges(TaskId(i))) {
      if (edge.distance == 0) after[edge.to.index()] = 1;
    }
  }
  std::vector<char> used_before(graph.tensors().size(), 0), used_after(graph.tensors().size(), 0);
  for (std::size_t i = 0; i < tasks; ++i) {
    for (const Access& access : graph.tasks()[i].accesses) {
      if (before[i] != 0) used_before[access.view.tensor.index()] = 1;
      if (after[i] != 0) used_after[access.view.tensor.index()] = 1;
    }
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    if (used_before[i] != 0 && used_after[i] != 0 && !is_state(tensor.role)) bytes += tensor.bytes();
  }
  return bytes;
}

std::int64_t least_scratch_bytes(const Graph& graph) {
  const std::size_t tasks = graph.tasks().size();
  std::size_t stride = 1;
  while (stride * stride < tasks) ++stride;
  std::int64_t most = 0;
  std::size_t most_at = 0;
  const auto look_at = [&](std::size_t task) {
    const std::int64_t bytes = bytes_kept_at(graph, TaskId(task));
    if (bytes > most) most = bytes, most_at = task;
  };
  for (std::size_t i = 0; i < tasks; i += stride) look_at(i);
  const std::size_t first = most_at - std::min(most_at, stride), end = std::min(tasks, most_at + stride);
  for (std::size_t i = first; i < end; ++i) look_at(i);
  return most;
}

EdgeStrength strength_of(const Edge& edge) {
  if (edge.kind == EdgeKind::issued_before) return EdgeStrength::order;
  return edge.reason == EdgeReason::read_after_write ? EdgeStrength::data : EdgeStrength::completion;
}

namespace {

struct Arc {
  std::uint32_t from, to;  // positions in a topological order
  std::uint32_t edge;
};

// Positions of the tasks in a topological order of the edges of distance 0; nothing if these edges form a cycle.
std::optional<std::vector<std::uint32_t>> topological_positions(std::size_t tasks, std::span<const Edge> edges) {
  std::vector<std::uint32_t> missing(tasks, 0), begin(tasks + 1, 0), out;
  for (const Edge& edge : edges) {
    if (edge.distance != 0) continue;
    ++missing[edge.to.index()];
    ++begin[edge.from.index() + 1];
  }
  for (std::size_t i = 0; i < tasks; ++i) begin[i + 1] += begin[i];
  out.resize(begin[tasks]);
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (const Edge& edge : edges) {
    if (edge.distance == 0) out[next[edge.from.index()]++] = edge.to.value;
  }
  std::vector<std::uint32_t> order;
  order.reserve(tasks);
  for (std::uint32_t i = 0; i < tasks; ++i) {
    if (missing[i] == 0) order.push_back(i);
  }
  std::vector<std::uint32_t> position(tasks, 0);
  for (std::uint32_t done = 0; done < order.size(); ++done) {
    const std::uint32_t task = order[done];
    position[task] = done;
    for (std::uint32_t i = begin[task]; i < begin[task + 1]; ++i) {
      if (--missing[out[i]] == 0) order.push_back(out[i]);
    }
  }
  if (order.size() != tasks) return std::nullopt;
  return position;
}

// Marks each arc of `candidates` whose ends are also joined by a path of two or more `arcs`.
void mark_implied(std::size_t tasks, const std::vector<Arc>& arcs, const std::vector<Arc>& candidates,
                  std::vector<bool>& implied) {
  constexpr std::size_t kWindow = 4096, kWords = kWindow / 64;
  if (candidates.empty()) return;
  for (const std::vector<Arc>* const list : {&arcs, &candidates}) {
    assert_that("arcs are sorted by target", [&] { return std::ranges::is_sorted(*list, {}, &Arc::to); });
    assert_that("arcs lead to later positions",
                [&] { return std::ranges::all_of(*list, [](const Arc& arc) { return arc.from < arc.to; }); });
  }
  std::vector<std::uint64_t> reach;   // by task: sources of the window that reach it by one or more arcs
  std::vector<std::uint64_t> longer;  // for one task: sources that reach it by two or more arcs
  for (std::size_t window = 0; window < tasks; window += kWindow) {
    reach.assign(tasks * kWords, 0);
    std::size_t arc = 0, candidate = 0;
    while (arc < arcs.size() && arcs[arc].to <= window) ++arc;
    while (candidate < candidates.size() && candidates[candidate].to <= window) ++candidate;
    for (std::size_t task = window + 1; task < tasks; ++task) {
      longer.assign(kWords, 0);
      std::uint64_t* own = &reach[task * kWords];
      for (; arc < arcs.size() && arcs[arc].to == task; ++arc) {
        const std::size_t from = arcs[arc].from;
        if (from < window) continue;
        for (std::size_t word = 0; word < kWords; ++word) longer[word] |= reach[from * kWords + word];
        if (from < window + kWindow) own[(from - window) / 64] |= std::uint64_t{1} << ((from - window) % 64);
      }
      for (std::size_t word = 0; word < kWords; ++word) own[word] |= longer[word];
      for (; candidate < candidates.size() && candidates[candidate].to == task; ++candidate) {
        const std::size_t from = candidates[candidate].from;
        if (from < window || from >= window + kWindow) continue;
        if ((longer[(from - window) / 64] >> ((from - window) % 64) & 1U) != 0) {
          implied[candidates[candidate].edge] = true;
        }
      }
    }
  }
}

}  // namespace

std::vector<bool> implied_edges(std::size_t tasks, std::span<const Edge> edges) {
  std::vector<bool> implied(edges.size(), false);
  const auto sorted = topological_positions(tasks, edges);
  if (!sorted) throw std::logic_error("the edges of one step form a cycle");
  const std::vector<std::uint32_t>& position = *sorted;
  std::vector<Arc> all;
  for (std::uint32_t i = 0; i < edges.size(); ++i) {
    if (edges[i].distance != 0) continue;
    all.push_back({position[edges[i].from.index()], position[edges[i].to.index()], i});
  }
  // Of parallel edges, the strongest comes first and stays.
  std::sort(all.begin(), all.end(), [&](const Arc& a, const Arc& b) {
    return std::tuple(a.to, a.from, strength_of(edges[b.edge]), a.edge) <
           std::tuple(b.to, b.from, strength_of(edges[a.edge]), b.edge);
  });
  std::size_t kept = 0;
  for (const Arc& arc : all) {
    if (kept > 0 && all[kept - 1].from == arc.from && all[kept - 1].to == arc.to) {
      implied[arc.edge] = true;
    } else {
      all[kept++] = arc;
    }
  }
  all.resize(kept);
  for (const EdgeStrength strength : {EdgeStrength::data, EdgeStrength::completion, EdgeStrength::order}) {
    std::vector<Arc> arcs, candidates;
    for (const Arc& arc : all) {
      const EdgeStrength own = strength_of(edges[arc.edge]);
      if (own >= strength) arcs.push_back(arc);
      if (own == strength) candidates.push_back(arc);
    }
    mark_implied(tasks, arcs, candidates, implied);
  }
  return implied;
}

bool acyclic(std::size_t tasks, std::span<const Edge> edges) {
  return topological_positions(tasks, edges).has_value();
}

Work work_of(const Graph& graph, const Task& task) {
  return work_of(task.operation, static_cast<double>(size_of(signature_dtype(graph, task))));
}

}  // namespace weft::graph
