#include "runtime/policy/builtin/deepcompile.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "graph/analysis.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

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
    const std::vector<std::int64_t> alive = graph::liveness(graph, ReorderedProgram(graph).sequence()).live_bytes;
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
    return std::ranges::any_of(graph_.out_edges(graph::TaskId(task)), [&](const graph::Edge& edge) {
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
  std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 2;
  if (const std::int64_t scratch = scratch_limit(graph, options); scratch > 0)
    limit = static_cast<std::int64_t>((1 - margin_) * static_cast<double>(scratch));
  const Walk walk(graph, limit, max_buffered_);
  ReorderedProgram program(graph);
  for (const Prefetch& prefetch : walk.prefetches()) {
    program.behind(prefetch.gather, prefetch.behind);
  }
  plan::Order order = program_order(graph, options, program.sequence());
  std::vector<std::uint32_t> reason(graph.tasks().size(), 0);
  EdgeAdder edges(order);
  for (const Prefetch& prefetch : walk.prefetches()) {
    reason[prefetch.gather.index()] = static_cast<std::uint32_t>(order.reasons.size());
    order.reasons.push_back(
        {.table = &kReasons,
         .numbers = {static_cast<std::uint64_t>(prefetch.in_flight), static_cast<std::uint64_t>(max_buffered_)}});
    edges.add(prefetch.behind, prefetch.gather);
  }
  for (plan::Placement& placement : order.sequence) {
    if (reason[placement.task.index()] != 0) placement.reason = reason[placement.task.index()];
  }
  return order;
}

}  // namespace weft::policy
