#include "runtime/simulate/open_what_if.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/opaque_graph.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/scaled_costs.h"

namespace weft::simulate {
namespace {

void scale(graph::OpenTask& task, double factor) {
  if (!task.ns && task.begin_ns) task.ns = *task.end_ns - *task.begin_ns;
  for (std::optional<double>* time : {&task.ns, &task.beside_ns, &task.link_ns, &task.cpu_ns}) {
    if (*time) **time *= factor;
  }
}

bool is_launch(const graph::OpenTask& task) {
  return task.kind == graph::OpenKind::host && task.operation == "launch";
}

/// "launch of gemm#3#0" and "after launch of gemm#3#0" → "gemm#3".
std::string_view launched_by(const graph::OpenTask& task) {
  constexpr std::string_view kLaunch = "launch of ";
  std::string_view name = task.name;
  const std::size_t begin = name.find(kLaunch);
  if (begin == std::string_view::npos) return {};
  name.remove_prefix(begin + kLaunch.size());
  return name.substr(0, name.rfind('#'));
}

/// Time for each byte, and time for none, of collectives of one kind on one channel.
struct LinkFit {
  double latency = 0, per_byte = 0;
};

LinkFit fit_of(const std::vector<const graph::OpenTask*>& tasks) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const graph::OpenTask* task : tasks) {
    const double bytes = task->network_bytes, ns = task->ns.value_or(0);
    n += 1;
    x += bytes;
    y += ns;
    xx += bytes * bytes;
    xy += bytes * ns;
  }
  const double spread = n * xx - x * x;
  if (spread <= 1e-9 * n * xx || x <= 0) return {0, x > 0 ? y / x : 0};  // all of one size
  const double per_byte = std::max(0.0, (n * xy - x * y) / spread);
  return {std::max(0.0, (y - per_byte * x) / n), per_byte};
}

/// Joins the collectives of one class.
class BucketJoin {
 public:
  BucketJoin(graph::OpenClass& step, double bytes) : step_(step), bytes_(bytes), first_use_(step.tasks.size(), kNever) {
    for (const graph::OpenEdge& edge : step.edges) {
      if (is_order(edge)) continue;
      first_use_[edge.from] = std::min(first_use_[edge.from], edge.to);
    }
  }

  std::int64_t run() {
    std::map<std::tuple<std::int32_t, std::int32_t, std::string>, std::vector<std::uint32_t>> queues;
    for (std::uint32_t i = 0; i < step_.tasks.size(); ++i) {
      const graph::OpenTask& task = step_.tasks[i];
      if (task.kind != graph::OpenKind::collective || task.network_bytes <= 0) continue;
      queues[{task.channel, task.stream, task.operation}].push_back(i);
    }
    std::int64_t joined = 0;
    for (const auto& [key, queue] : queues) joined += join(queue);
    return joined;
  }

 private:
  static constexpr std::uint32_t kNever = UINT32_MAX;

  /// Of collectives of one stream, which are in order anyway.
  bool is_order(const graph::OpenEdge& edge) const {
    return edge.source == graph::EdgeSource::stream && step_.tasks[edge.from].stream == step_.tasks[edge.to].stream;
  }

  std::int64_t join(const std::vector<std::uint32_t>& queue) {
    std::vector<const graph::OpenTask*> tasks;
    for (const std::uint32_t i : queue) tasks.push_back(&step_.tasks[i]);
    const LinkFit fit = fit_of(tasks);
    std::int64_t joined = 0;
    for (std::size_t first = 0; first < queue.size();) {
      std::size_t last = first;
      double bytes = step_.tasks[queue[first]].network_bytes;
      std::uint32_t used = first_use_[queue[first]];
      while (last + 1 < queue.size() && bytes < bytes_ && queue[last + 1] < used) {
        ++last;
        bytes += step_.tasks[queue[last]].network_bytes;
        used = std::min(used, first_use_[queue[last]]);
      }
      if (last > first) join(queue, first, last, fit);
      joined += static_cast<std::int64_t>(last - first);
      first = last + 1;
    }
    return joined;
  }

  void join(const std::vector<std::uint32_t>& queue, std::size_t first, std::size_t last, const LinkFit& fit) {
    graph::OpenTask& whole = step_.tasks[queue[last]];
    double ns = whole.ns.value_or(0);
    std::vector<graph::OpenEdge> added;
    for (std::size_t i = first; i < last; ++i) {
      graph::OpenTask& part = step_.tasks[queue[i]];
      ns += std::max(0.0, part.ns.value_or(0) - fit.latency);
      whole.network_bytes += part.network_bytes;
      part.network_bytes = 0;
      scale(part, 0);
      for (const graph::OpenEdge& edge : step_.edges) {
        if (edge.from == queue[i] && !is_order(edge)) added.push_back({queue[last], edge.to, edge.kind, edge.source});
      }
      added.push_back({queue[i], queue[last]});
    }
    whole.ns = ns;
    whole.beside_ns.reset();
    whole.link_ns.reset();
    step_.edges.insert(step_.edges.end(), added.begin(), added.end());
  }

  graph::OpenClass& step_;
  const double bytes_;
  std::vector<std::uint32_t> first_use_;  // by task: the first one that waits for it, but for order; kNever: none
};

}  // namespace

void take_host_away(graph::OpenGraph& graph) {
  for (graph::OpenClass& step : graph.classes) {
    for (graph::OpenTask& task : step.tasks) {
      if (task.kind == graph::OpenKind::host && task.operation != graph::kLaterStart) scale(task, 0);
    }
  }
}

void take_tasks_away(graph::OpenGraph& graph, std::string_view pattern) {
  for (graph::OpenClass& step : graph.classes) {
    std::map<std::string_view, bool, std::less<>> gone;
    for (graph::OpenTask& task : step.tasks) {
      const bool matches = task.kind != graph::OpenKind::host && (cost::matches_pattern(pattern, task.operation) ||
                                                                  cost::matches_pattern(pattern, task.name));
      if (task.kind != graph::OpenKind::host) gone[task.name] = matches;
      if (matches) scale(task, 0);
    }
    std::vector<bool> launches_more(step.tasks.size());
    for (const graph::OpenEdge& edge : step.edges) {
      if (edge.source != graph::EdgeSource::launch) continue;
      const auto found = gone.find(step.tasks[edge.to].name);
      if (found != gone.end() && !found->second) launches_more[edge.from] = true;
    }
    for (std::uint32_t i = 0; i < step.tasks.size(); ++i) {
      const auto found = gone.find(launched_by(step.tasks[i]));
      if (is_launch(step.tasks[i]) && found != gone.end() && found->second && !launches_more[i])
        scale(step.tasks[i], 0);
    }
  }
}

void move_to_machine(graph::OpenGraph& graph, const cost::Machine& from, const cost::Machine& to, DType dtype) {
  const double products = from.flops(dtype) / to.flops(dtype);
  const double memory = from.memory_bandwidth / to.memory_bandwidth;
  for (graph::OpenClass& step : graph.classes) {
    for (graph::OpenTask& task : step.tasks) {
      if (task.kind == graph::OpenKind::host) continue;
      if (!graph::communicates(task.kind)) {
        const graph::KindClass drawn = graph::drawn_as(task);
        const bool product = drawn == graph::KindClass::gemm || drawn == graph::KindClass::attention;
        scale(task, product ? products : memory);
        continue;
      }
      const std::int64_t size =
          task.channel < 0 ? 2 : graph.channels[static_cast<std::size_t>(task.channel)].group_size;
      scale(task, cost::group_bandwidth(from, cost::span_of_first_ranks(from, size)) /
                      cost::group_bandwidth(to, cost::span_of_first_ranks(to, size)));
    }
  }
}

std::int64_t join_buckets(graph::OpenGraph& graph, double bytes) {
  std::int64_t joined = 0;
  for (graph::OpenClass& step : graph.classes) joined += BucketJoin(step, bytes).run();
  return joined;
}

}  // namespace weft::simulate
