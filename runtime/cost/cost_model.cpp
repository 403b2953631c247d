#include "runtime/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "graph/analysis.h"
#include "graph/grid.h"
#include "runtime/cost/measured_rates.h"

namespace weft::cost {
namespace {

constexpr double kNanoseconds = 1e9;
constexpr std::size_t kChannels = graph::kAxisChannels;

double to_double(std::int64_t n) {
  return static_cast<double>(n);
}

DType dtype_of(const graph::Graph& graph, const graph::Task& task) {
  return task.accesses.empty() ? DType::f32 : graph.tensor(task.accesses.front().view.tensor).dtype;
}

/// The traffic of a collective, independent of the link: bytes of the whole array, and how often it goes around the
/// ring.
struct Movement {
  std::int64_t ranks = 1;
  double bytes = 0;
  double rounds = 1;  // all-reduce: 2
  bool all_reduce = false, broadcast = false;
  bool direct = false;  // each rank's elements go to the rank that they are for, and through no other
};

Movement movement_of(const graph::Operation& operation, double element_bytes) {
  return std::visit(
      Overloaded{
          [&](const graph::AllReduce& o) {
            return Movement{o.ranks, to_double(o.count) * element_bytes, 2, true, false};
          },
          [&](const graph::ReduceScatter& o) {
            return Movement{o.ranks, to_double(o.ranks * o.count) * element_bytes, 1, false, false};
          },
          [&](const graph::AllGather& o) {
            return Movement{o.ranks, to_double(o.ranks * o.count) * element_bytes, 1, false, false};
          },
          [&](const graph::AllToAll& o) {
            return Movement{.ranks = o.ranks, .bytes = to_double(o.elements()) * element_bytes, .direct = true};
          },
          [&](const graph::ExchangeRows& o) {
            return Movement{.ranks = o.ranks, .bytes = to_double(o.rows * o.count) * element_bytes, .direct = true};
          },
          [&](const graph::Broadcast& o) {
            return Movement{o.ranks, to_double(o.count) * element_bytes, 1, false, true};
          },
          [&](const graph::Send& o) {
            return Movement{2, to_double(o.count) * element_bytes, 1, false, true};
          },
          [](const graph::Receive&) { return Movement{.ranks = 2}; },
          [](const auto&) { return Movement{}; },
      },
      operation);
}

double node_bandwidth(const Machine& machine, std::int64_t ranks, std::int64_t stride) {
  for (const NodeGroup& group : machine.node_groups) {
    if (group.ranks == ranks && group.stride == stride) return group.bandwidth;
  }
  if (machine.pair_bandwidth == 0) return machine.node.bandwidth;
  return std::min(machine.node.bandwidth, machine.pair_bandwidth * to_double(std::max<std::int64_t>(ranks - 1, 1)));
}

// One group's share of the bandwidth of its node's ports.
double network_bandwidth(const Machine& machine, const GroupSpan& span) {
  return machine.network.bandwidth * machine.network_ports /
         (to_double(std::min(span.sharing, machine.devices_per_node)) * machine.congestion_of(span.job_nodes));
}

/// Seconds that bytes take on one link, after `latency` seconds, by the faster of its protocols.
CollectiveTime on_link(const Link& link, double latency, double bytes, double bandwidth) {
  // The small protocol's rate is that of a rank alone; a shared link lowers it.
  const double small = std::min(link.small_bandwidth, bandwidth), usual = link.setup + bytes / bandwidth;
  return {latency + (small > 0 ? std::min(usual, bytes / small) : usual), bytes / bandwidth};
}

CollectiveTime ring(const Machine& machine, const GroupSpan& span, const Movement& move) {
  const double n = to_double(span.ranks), crossings = span.within_node() ? 0 : to_double(span.nodes - 1);
  const double steps = n - 1;
  const double latency =
      move.rounds * ((steps - crossings) * machine.node.latency + crossings * machine.network.latency);
  const double sent = move.broadcast ? move.bytes : move.rounds * (n - 1) / n * move.bytes;
  return on_link(span.within_node() ? machine.node : machine.network, latency, sent, group_bandwidth(machine, span));
}

/// Of a rank's bytes, parts for ranks of its node stay there, and all of the node's ranks send the others through its
/// ports, side by side with the former.
CollectiveTime exchange(const Machine& machine, const GroupSpan& span, const Movement& move) {
  const double n = to_double(span.ranks), g = span.within_node() ? n : to_double(span.per_node);
  const CollectiveTime inside =
      on_link(machine.node, machine.node.latency, move.bytes * (g - 1) / n,
              node_bandwidth(machine, span.within_node() ? span.ranks : span.per_node, span.stride));
  if (span.within_node()) return inside;
  const CollectiveTime across =
      on_link(machine.network, machine.network.latency, g * move.bytes * (n - g) / n, network_bandwidth(machine, span));
  return across.seconds < inside.seconds ? inside : across;
}

double tree_latency(const Machine& machine, const GroupSpan& span) {
  if (span.within_node()) return 2 * std::ceil(std::log2(to_double(span.ranks))) * machine.node.latency;
  return 2 * (to_double(span.per_node - 1) * machine.node.latency +
              std::ceil(std::log2(to_double(span.nodes))) * machine.network.latency);
}

CollectiveTime tree(const Machine& machine, const GroupSpan& span, const Movement& move) {
  return on_link(span.within_node() ? machine.node : machine.network, tree_latency(machine, span), 2 * move.bytes,
                 group_bandwidth(machine, span));
}

CollectiveTime hierarchical(const Machine& machine, const GroupSpan& span, const Movement& move) {
  const double g = to_double(span.per_node), nodes = to_double(span.nodes);
  const double inside = 2 * (g - 1) / g * move.bytes / node_bandwidth(machine, span.per_node, span.stride);
  // All g members of a node send their part at once, and together use the group's share of the ports.
  return on_link(machine.network, tree_latency(machine, span) + inside, 2 * (nodes - 1) / nodes * move.bytes,
                 network_bandwidth(machine, span));
}

class AnalyticCosts final : public CostModel {
 public:
  AnalyticCosts(const Machine& machine, const graph::Grid& grid, RowFactors rows = {})
      : machine_(machine), rates_(machine), rows_(std::move(rows)) {
    for (std::size_t i = 0; i < kChannels; ++i)
      spans_.at(i) = group_span(machine, grid, static_cast<graph::Channel>(i));
  }

  TaskCosts costs(const graph::Graph& graph) const override {
    TaskCosts costs;
    costs.ns.reserve(graph.tasks().size());
    costs.cpu_ns.reserve(graph.tasks().size());
    costs.link_ns.reserve(graph.tasks().size());
    for (const graph::Task& of_graph : graph.tasks()) {
      std::optional<graph::Task> loaded;
      if (const auto counted = rows_.counted(of_graph)) {
        loaded = of_graph;
        loaded->operation = *counted;
      }
      const graph::Task& task = loaded ? *loaded : of_graph;
      const graph::Work work = graph::work_of(graph, task);
      if (const graph::Channel* channel = graph::channel_of(task.operation)) {
        GroupSpan span = spans_.at(static_cast<std::size_t>(*channel));
        // The graph wasn't made for this grid.
        if (const auto ranks = movement_of(task.operation, 0).ranks; ranks != span.ranks) {
          span = span_of_first_ranks(machine_, ranks);
        }
        const double element_bytes = to_double(static_cast<std::int64_t>(size_of(dtype_of(graph, task))));
        // A message's time is its sender's.
        const CollectiveTime time = std::holds_alternative<graph::Receive>(task.operation)
                                        ? CollectiveTime{}
                                        : collective_time(machine_, span, task.operation, element_bytes);
        costs.ns.push_back(time.seconds * kNanoseconds);
        costs.link_ns.push_back(time.on_link * kNanoseconds);
        costs.cpu_ns.push_back(std::min(costs.ns.back(), work.network_bytes * machine_.transport_cpu * kNanoseconds));
      } else {
        const double started = started_seconds(task.operation, work, dtype_of(graph, task));
        costs.ns.push_back((machine_.task_overhead + started) * kNanoseconds);
        costs.cpu_ns.push_back(0);
        costs.link_ns.push_back(0);
      }
    }
    return costs;
  }

  /// Without the start of the task.
  double started_seconds(const graph::Operation& operation, const graph::Work& work, DType dtype) const {
    const ArithmeticTime arithmetic = rates_.arithmetic(operation, work.flops, dtype);
    // A measurement holds the time for bytes already, from whichever memory they came.
    return arithmetic.at_point
               ? arithmetic.seconds
               : std::max(arithmetic.seconds, work.bytes / (machine_.memory_bandwidth * machine_.memory_efficiency));
  }

  std::string source() const override { return "machine " + machine_.name + rows_.text(); }

 private:
  Machine machine_;
  MeasuredRates rates_;
  RowFactors rows_;
  std::array<GroupSpan, kChannels> spans_;
};

/// The operation of a calibration point, with elements of one byte.
graph::Operation operation_of(const CalibrationPoint& point) {
  const auto bytes = static_cast<std::int64_t>(point.bytes), part = bytes / point.ranks;
  if (point.kind == "all_reduce") return graph::AllReduce{graph::Channel::world, point.ranks, bytes};
  if (point.kind == "all_gather") return graph::AllGather{graph::Channel::world, point.ranks, part};
  if (point.kind == "reduce_scatter") return graph::ReduceScatter{graph::Channel::world, point.ranks, part};
  if (point.kind == "broadcast") return graph::Broadcast{graph::Channel::world, point.ranks, bytes, 0};
  return graph::Gemm{point.m, point.n, point.k};
}

/// Of a computation that was measured by itself, where nothing wears its rate down.
double started_seconds(Machine machine, const graph::Operation& operation, DType dtype) {
  machine.sustained = 1;
  const graph::Work work = graph::work_of(operation, to_double(static_cast<std::int64_t>(size_of(dtype))));
  return AnalyticCosts(machine, graph::Grid()).started_seconds(operation, work, dtype);
}

std::int64_t stride_of(const graph::Grid& grid, graph::Axis axis) {
  graph::Coordinates second;
  second.on(axis) = 1;
  return graph::rank_of(grid, second);
}

/// Of the farthest neighbours: whether some message leaves its node, and how many leave one node at once.
void place_messages(std::int64_t a_node, const graph::Grid& grid, graph::Channel channel, GroupSpan& span) {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < grid.ranks(); first += a_node) {
    std::int64_t leaving = 0;
    for (std::int64_t rank = first; rank < std::min(first + a_node, grid.ranks()); ++rank) {
      const std::int64_t peer = graph::peer_rank(grid, channel, rank);
      leaving += peer / a_node == first / a_node ? 0 : 1;
    }
    most = std::max(most, leaving);
  }
  span.nodes = most > 0 ? 2 : 1;
  span.per_node = most > 0 ? 1 : 2;
  span.sharing = std::max<std::int64_t>(most, 1);
}

void place_one_group(std::int64_t a_node, const graph::Grid& grid, graph::Channel channel, GroupSpan& span) {
  if (span.ranks == grid.ranks()) {
    span.nodes = span.job_nodes;
    span.per_node = std::min(span.ranks, a_node);
    return;
  }
  std::map<std::int64_t, std::int64_t> members;  // by node
  for (const std::int64_t rank : graph::group_ranks(grid, channel, 0)) ++members[rank / a_node];
  span.nodes = std::ssize(members);
  for (const auto& [node, count] : members) span.per_node = std::max(span.per_node, count);
}

/// Where blocks of groups and whole nodes divide each other, as on most grids. False: they don't.
bool place_dividing_groups(std::int64_t a_node, std::int64_t ranks, GroupSpan& span) {
  const std::int64_t stride = span.stride, block = stride * span.ranks;
  if (ranks % a_node != 0) return false;
  if (a_node % block == 0) {
    span.nodes = 1, span.per_node = span.ranks, span.sharing = a_node / span.ranks;
  } else if (stride % a_node == 0) {
    span.nodes = span.ranks, span.per_node = 1, span.sharing = a_node;
  } else if (a_node % stride == 0 && block % a_node == 0) {
    span.nodes = block / a_node, span.per_node = a_node / stride, span.sharing = stride;
  } else {
    return false;
  }
  return true;
}

/// A group's members are `stride` ranks apart, and `stride` groups lie side by side in a block of ranks. Blocks and
/// nodes begin together after `period` ranks, from where on everything repeats.
void place_regular_groups(std::int64_t a_node, std::int64_t ranks, GroupSpan& span) {
  if (place_dividing_groups(a_node, ranks, span)) return;
  const std::int64_t stride = span.stride, block = stride * span.ranks;
  const std::int64_t period = std::min(ranks, std::lcm(block, a_node));
  for (std::int64_t base = 0; base < period; ++base) {
    if (base % block >= stride) continue;  // not the first member of its group
    std::int64_t nodes = 0, on_node = 0;
    for (std::int64_t member = 0; member < span.ranks; ++member) {
      const std::int64_t rank = base + member * stride;
      const bool same_node = member > 0 && rank / a_node == (rank - stride) / a_node;
      on_node = same_node ? on_node + 1 : 1;
      nodes += same_node ? 0 : 1;
      span.per_node = std::max(span.per_node, on_node);
    }
    span.nodes = std::max(span.nodes, nodes);
  }
  for (std::int64_t node = 0; node < period; node += a_node) {
    std::int64_t groups = 0;
    for (std::int64_t rank = node; rank < std::min(node + a_node, ranks); ++rank) {
      const std::int64_t before = rank - stride;  // the member before this one, if it belongs to the group
      groups += before >= node && before / block == rank / block ? 0 : 1;
    }
    span.sharing = std::max(span.sharing, groups);
  }
}

}  // namespace

GroupSpan span_of_first_ranks(const Machine& machine, std::int64_t count) {
  GroupSpan span;
  span.ranks = count;
  span.nodes = span.job_nodes = (count + machine.devices_per_node - 1) / machine.devices_per_node;
  span.per_node = std::min(count, machine.devices_per_node);
  return span;
}

GroupSpan group_span(const Machine& machine, const graph::Grid& grid, graph::Channel channel) {
  const std::int64_t a_node = machine.devices_per_node;
  const bool messages = graph::is_message(channel);
  const bool alone = channel == graph::Channel::stage || channel == graph::Channel::embedding;
  GroupSpan span;
  span.ranks = graph::group_size(grid, channel);
  span.job_nodes = (grid.ranks() + a_node - 1) / a_node;
  if (!alone && channel != graph::Channel::world)
    span.stride = stride_of(grid, messages ? graph::Axis::pipe : graph::axis_of(channel));
  if (channel == graph::Channel::expert_copies) span.stride *= grid.expert;
  if (span.ranks == 1) return span;
  if (messages) {
    place_messages(a_node, grid, channel, span);
  } else if (alone) {
    place_one_group(a_node, grid, channel, span);
  } else {
    place_regular_groups(a_node, grid.ranks(), span);
  }
  return span;
}

std::vector<RankGroups> groups_within_node(std::int64_t devices, std::size_t most) {
  std::vector<RankGroups> groups;
  for (std::int64_t ranks = 2; ranks < devices; ++ranks) {
    for (std::int64_t stride = 1; ranks * stride <= devices; ++stride) {
      if (devices % (ranks * stride) == 0) groups.push_back({ranks, stride});
    }
  }
  if (groups.size() <= most) return groups;
  const auto is_outside = [&](const RankGroups& each) {
    return each.stride == 1 || each.ranks * each.stride == devices;
  };
  std::stable_partition(groups.begin(), groups.end(), is_outside);
  groups.resize(most);
  std::ranges::sort(groups, {}, [](const RankGroups& each) { return std::tuple(each.ranks, each.stride); });
  return groups;
}

double group_bandwidth(const Machine& machine, const GroupSpan& span) {
  const double inside = node_bandwidth(machine, span.within_node() ? span.ranks : span.per_node, span.stride);
  if (span.within_node()) return inside;
  const double network = network_bandwidth(machine, span);
  return span.per_node == 1 ? network : std::min(inside, network);
}

CollectiveTime collective_time(const Machine& machine, const GroupSpan& span, const graph::Operation& operation,
                               double element_bytes) {
  if (span.ranks == 1) return {};
  const Movement move = movement_of(operation, element_bytes);
  const auto faster = [](const CollectiveTime& a, const CollectiveTime& b) { return b.seconds < a.seconds ? b : a; };
  if (move.direct) return exchange(machine, span, move);
  CollectiveTime time = ring(machine, span, move);
  if (move.all_reduce) {
    time = faster(time, tree(machine, span, move));
    if (machine.hierarchical && !span.within_node() && span.per_node > 1)
      time = faster(time, hierarchical(machine, span, move));
  }
  return time;
}

double predicted_seconds(const Machine& machine, const CalibrationPoint& point) {
  const graph::Operation operation = operation_of(point);
  if (graph::is_collective(operation)) {
    return collective_time(machine, span_of_first_ranks(machine, point.ranks), operation, 1).seconds;
  }
  return machine.task_overhead + started_seconds(machine, operation, point.dtype);
}

double predicted_seconds(const Machine& machine, const CalibrationPoint& point, const RankGroups& groups,
                         std::int64_t job_ranks) {
  const GroupSpan span = group_span(machine, groups.grid(job_ranks), RankGroups::kChannel);
  return collective_time(machine, span, operation_of(point), 1).seconds;
}

double predicted_seconds(const Machine& machine, const GemmPoint& point) {
  return started_seconds(machine, operation_of(point), point.dtype);
}

double predicted_seconds(const Machine& machine, const AttentionPoint& point) {
  return started_seconds(with_attention_of(machine, point.library), operation_of(point), point.dtype);
}

std::unique_ptr<const CostModel> analytic_costs(const Machine& machine, const graph::Grid& grid, RowFactors rows) {
  return std::make_unique<AnalyticCosts>(machine, grid, std::move(rows));
}

const CostModel& default_cost_model() {
  static const AnalyticCosts model{Machine(), graph::Grid()};
  return model;
}

}  // namespace weft::cost
