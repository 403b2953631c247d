#include "runtime/policy/builtin/deepcompile.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

/// By task: bytes of scratch alive while it runs in program order.
std::vector<std::int64_t> alive_bytes(const graph::Graph& graph) {
  const std::size_t tasks = graph.tasks().size();
  std::vector<std::size_t> first(graph.tensors().size(), tasks), last(graph.tensors().size(), 0);
  for (std::size_t i = 0; i < tasks; ++i) {
    for (const graph::Access& access : graph.tasks()[i].accesses) {
      const std::size_t tensor = access.view.tensor.index();
      first[tensor] = std::min(first[tensor], i);
      last[tensor] = i;
    }
  }
  std::vector<std::int64_t> change(tasks + 1, 0);
  for (std::size_t tensor = 0; tensor < first.size(); ++tensor) {
    const graph::Tensor& of = graph.tensors()[tensor];
    if (graph::is_state(of.role) || first[tensor] == tasks) continue;
    change[first[tensor]] += of.bytes();
    change[last[tensor] + 1] -= of.bytes();
  }
  std::vector<std::int64_t> alive(tasks, 0);
  std::int64_t now = 0;
  for (std::size_t i = 0; i < tasks; ++i) alive[i] = now += change[i];
  return alive;
}

std::int64_t gathered_bytes(const graph::Graph& graph, const graph::Task& gather) {
  std::int64_t bytes = 0;
  for (const graph::Access& access : gather.accesses) {
    const graph::Tensor& tensor = graph.tensor(access.view.tensor);
    if (access.mode != graph::AccessMode::read && !graph::is_state(tensor.role)) bytes += tensor.bytes();
  }
  return bytes;
}

/// A gather, where it is put, and the bytes in flight there.
struct Prefetch {
  graph::TaskId gather, behind;  // behind: invalid: at the begin
  std::int64_t in_flight = 0;
};

class Walk {
 public:
  Walk(const graph::Graph& graph, std::int64_t limit, std::int64_t most) : graph_(graph), most_(most) {
    const std::vector<std::int64_t> alive = alive_bytes(graph);
    for (std::size_t i = graph.tasks().size(); i-- > 0;) {
      const graph::Task& task = graph.tasks()[i];
      if (is_gather(task)) {
        carried_.emplace_back(i);
        bytes_ += gathered_bytes(graph, task);
        continue;
      }
      while (!carried_.empty() && (bytes_ > most_ || alive[i] + bytes_ > limit || leads_to_carried(i))) {
        put_behind(graph::TaskId(i));
      }
    }
    while (!carried_.empty()) put_behind(graph::TaskId());
  }

  const std::vector<Prefetch>& prefetches() const { return prefetches_; }

 private:
  bool leads_to_carried(std::size_t task) const {
    return std::ranges::any_of(graph_.out_edges(graph::TaskId(task)), [&](std::uint32_t index) {
      const graph::Edge& edge = graph_.edges()[index];
      return edge.distance == 0 && std::ranges::find(carried_, edge.to) != carried_.end();
    });
  }

  void put_behind(graph::TaskId task) {
    prefetches_.push_back({carried_.front(), task, bytes_});
    bytes_ -= gathered_bytes(graph_, graph_.task(carried_.front()));
    carried_.pop_front();
  }

  const graph::Graph& graph_;
  const std::int64_t most_;
  std::deque<graph::TaskId> carried_;  // the one that is used last in front
  std::int64_t bytes_ = 0;
  std::vector<Prefetch> prefetches_;
};

}  // namespace

DeepCompilePolicy::DeepCompilePolicy(PolicyParameters& parameters)
    : margin_(parameters.number("margin", kMargin, 0, 1)),
      max_buffered_(static_cast<std::int64_t>(parameters.number("max-buffered", kMaxBuffered, 0, 1e6) * kGiB)) {}

plan::Order DeepCompilePolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const std::int64_t limit = options.memory_limit > 0
                                 ? static_cast<std::int64_t>((1 - margin_) * static_cast<double>(options.memory_limit))
                                 : std::numeric_limits<std::int64_t>::max() / 2;
  const Walk walk(graph, limit, max_buffered_);
  ReorderedProgram program(graph);
  for (const Prefetch& prefetch : walk.prefetches()) {
    if (prefetch.behind.valid()) {
      program.behind(prefetch.gather, prefetch.behind);
    } else {
      program.before(prefetch.gather, graph::TaskId(std::size_t{0}));
    }
  }
  plan::Order order = program_order(graph, options, program.sequence());
  std::vector<std::uint32_t> reason(graph.tasks().size(), 0);
  EdgeAdder edges(order);
  for (const Prefetch& prefetch : walk.prefetches()) {
    reason[prefetch.gather.index()] = static_cast<std::uint32_t>(order.reasons.size());
    order.reasons.push_back(
        {.table = &kReasons,
         .numbers = {static_cast<std::uint64_t>(prefetch.in_flight), static_cast<std::uint64_t>(max_buffered_)}});
    if (prefetch.behind.valid()) edges.add(prefetch.behind, prefetch.gather);
  }
  for (plan::Placement& placement : order.sequence) {
    if (reason[placement.task.index()] != 0) placement.reason = reason[placement.task.index()];
  }
  return order;
}

}  // namespace weft::policy
