#include "runtime/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/assertions.h"
#include "base/hash.h"
#include "graph/analysis.h"
#include "runtime/plan/collective_signature.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/plan/plan_waits.h"

namespace weft::plan {
namespace {

[[noreturn]] void refuse(const std::string& policy, const std::string& why) {
  throw std::logic_error(fmt::format("policy '{}': {}", policy, why));
}

/// Checks the policy's ids and indices before make_plan() uses them.
void check_order(const graph::Graph& graph, const Order& order, const std::string& policy) {
  std::vector<graph::TaskId> sequence;
  sequence.reserve(order.sequence.size());
  for (const Placement& placement : order.sequence) sequence.push_back(placement.task);
  if (const std::string why = graph::why_not_topological(graph, sequence); !why.empty()) {
    refuse(policy, "its sequence isn't a topological order of the graph: " + why);
  }
  for (const Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    if (placement.stream.index() >= order.streams.size()) {
      refuse(policy,
             fmt::format("'{}' is on stream {} of {}", task.name, placement.stream.value, order.streams.size()));
    }
    if (placement.reason >= order.reasons.size()) {
      refuse(policy, fmt::format("'{}' has reason {} of {}", task.name, placement.reason, order.reasons.size()));
    }
    const Stream& stream = order.streams[placement.stream.index()];
    const graph::Channel* channel = graph::channel_of(task.operation);
    const bool fits =
        channel == nullptr ? stream.compute : placement.stream == stream_of_channel(order.streams, *channel);
    if (!fits) {
      refuse(policy,
             fmt::format("'{}' is on stream {}, but belongs on {}", task.name, stream.name,
                         channel == nullptr ? std::string("a compute stream")
                                            : fmt::format("the stream of channel {}", graph.channel_name(*channel))));
    }
  }
}

void check_added_edges(const graph::Graph& graph, const Order& order, const std::string& policy) {
  std::vector<std::size_t> place(graph.tasks().size());
  for (std::size_t i = 0; i < order.sequence.size(); ++i) place[order.sequence[i].task.index()] = i;
  for (const graph::Edge& edge : order.added_edges) {
    if (edge.from.index() >= place.size() || edge.to.index() >= place.size() || edge.distance > 1) {
      refuse(policy, "an added edge names no task of the graph, or a distance above 1");
    }
    if (edge.distance == 0 && place[edge.from.index()] >= place[edge.to.index()]) {
      refuse(policy, fmt::format("its edge from '{}' to '{}' goes against its sequence", graph.task(edge.from).name,
                                 graph.task(edge.to).name));
    }
  }
}

void lay_out_streams(Plan& plan, const Order& order) {
  for (const Stream& stream : order.streams) plan.streams.push_back({stream, {}});
  plan.position.resize(order.sequence.size());
  for (const Placement& placement : order.sequence) {
    std::vector<Entry>& entries = plan.streams[placement.stream.index()].entries;
    plan.position[placement.task.index()] = {placement.stream, static_cast<std::uint32_t>(entries.size())};
    entries.push_back({placement.task, {}, false, placement.reason});
    plan.sequence.push_back(placement.task);
    if (graph::is_collective(plan.graph->task(placement.task).operation)) plan.collectives.push_back(placement.task);
  }
}

/// Keeps only the memory planner's edges that became waits; these and the policy's order imply the other edges.
void keep_waited_edges(Plan& plan, std::size_t first, const HappensBefore& order) {
  const auto implied = [&](const graph::Edge& edge) {
    const Position from = plan.position[edge.from.index()];
    const std::vector<Wait>& waits = order.waits(edge.to);
    return std::ranges::find(waits, Wait{from.stream, from.entry, edge.distance}) == waits.end();
  };
  const auto memory = plan.added_edges.begin() + static_cast<std::ptrdiff_t>(first);
  const auto ends = [](const graph::Edge& edge) { return std::tuple(edge.to, edge.from); };
  std::stable_sort(memory, plan.added_edges.end(),
                   [&](const graph::Edge& a, const graph::Edge& b) { return ends(a) < ends(b); });
  const auto same = [&](const graph::Edge& a, const graph::Edge& b) { return ends(a) == ends(b); };
  plan.added_edges.erase(std::unique(memory, plan.added_edges.end(), same), plan.added_edges.end());
  plan.added_edges.erase(
      std::remove_if(plan.added_edges.begin() + static_cast<std::ptrdiff_t>(first), plan.added_edges.end(), implied),
      plan.added_edges.end());
}

void set_waits(Plan& plan, const HappensBefore& order) {
  for (StreamPlan& stream : plan.streams) {
    for (Entry& entry : stream.entries) {
      entry.waits = order.waits(entry.task);
      for (const Wait& wait : entry.waits) {
        assert_that("the queue implies that earlier entries of the same stream are complete",
                    [&] { return &plan.streams[wait.stream.index()] != &stream; });
        plan.streams[wait.stream.index()].entries[wait.entry].signals = true;
      }
    }
  }
}

std::uint64_t fingerprint_of(const Plan& plan) {
  Fingerprint hash;
  hash.add(plan.graph->fingerprint());
  for (const StreamPlan& stream : plan.streams) {
    hash.add(stream.stream.name).add(graph::fingerprint_number(stream.stream.channel)).add(stream.stream.compute);
    hash.add(stream.entries.size());
    for (const Entry& entry : stream.entries) {
      hash.add(entry.task.value).add(entry.waits.size());
      for (const Wait& wait : entry.waits) hash.add(wait.stream.value).add(wait.entry).add(wait.distance);
    }
  }
  for (const graph::TaskId collective : plan.collectives) hash.add(collective.value);
  for (const std::int64_t offset : plan.offset) hash.add(offset);
  return hash.add(plan.scratch_bytes).value();
}

std::uint64_t collective_fingerprint_of(const Plan& plan) {
  Fingerprint hash;
  for (const graph::TaskId collective : plan.collectives) {
    const CollectiveSignature signature = signature_of(*plan.graph, collective);
    hash.add(graph::fingerprint_number(signature.channel)).add(signature.kind).add(signature.count);
    hash.add(static_cast<std::uint8_t>(signature.dtype)).add(signature.task);
  }
  return hash.value();
}

}  // namespace

Plan make_plan(std::shared_ptr<const graph::Graph> graph, const Order& order, std::string policy_name) {
  check_order(*graph, order, policy_name);
  check_added_edges(*graph, order, policy_name);
  Plan plan;
  plan.graph = std::move(graph);
  plan.policy = std::move(policy_name);
  plan.added_edges = order.added_edges;
  plan.reasons = order.reasons;
  lay_out_streams(plan, order);

  const HappensBefore before_reuse(plan);
  const std::vector<graph::Edge> reuse = plan_memory(plan, before_reuse);
  if (reuse.empty()) {
    set_waits(plan, before_reuse);
  } else {
    const std::size_t first = plan.added_edges.size();
    plan.added_edges.insert(plan.added_edges.end(), reuse.begin(), reuse.end());
    const HappensBefore with_reuse(plan);
    keep_waited_edges(plan, first, with_reuse);
    set_waits(plan, with_reuse);
  }
  assert_that("positions tell where the streams' entries are", [&] {
    return std::ranges::all_of(plan.sequence, [&](graph::TaskId task) {
      const Position& at = plan.position[task.index()];
      return plan.streams[at.stream.index()].entries[at.entry].task == task;
    });
  });
  plan.fingerprint = fingerprint_of(plan);
  plan.collective_fingerprint = collective_fingerprint_of(plan);
  return plan;
}

MemoryReport memory_report(const Plan& plan) {
  const graph::Graph& graph = *plan.graph;
  const graph::Liveness live = graph::liveness(graph, plan.sequence);
  MemoryReport report;
  report.state = live.state_bytes;
  report.arena = plan.scratch_bytes;
  std::array<std::vector<std::int64_t>, graph::kRoles> change;  // by role and position
  for (auto& of_role : change) of_role.resize(plan.sequence.size() + 1, 0);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const graph::Tensor& tensor = graph.tensors()[i];
    const auto role = static_cast<std::size_t>(tensor.role);
    const graph::Lifetime& life = live.lifetimes[i];
    if (graph::is_state(tensor.role)) {
      report.bytes[role] += tensor.bytes();
    } else if (life.first >= 0) {
      change[role][static_cast<std::size_t>(life.first)] += tensor.bytes();
      change[role][static_cast<std::size_t>(life.last) + 1] -= tensor.bytes();
    }
  }
  for (std::size_t role = 0; role < graph::kRoles; ++role) {
    if (graph::is_state(static_cast<graph::Role>(role))) continue;
    std::int64_t bytes = 0;
    for (const std::int64_t delta : change[role]) report.bytes[role] = std::max(report.bytes[role], bytes += delta);
  }
  return report;
}

std::string rewrites_for_memory(const Plan& plan) {
  const Selection* selection = selection_of(plan.reasons);
  return selection == nullptr ? "" : selection->rewrites;
}

}  // namespace weft::plan
