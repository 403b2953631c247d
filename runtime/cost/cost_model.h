// Cost models: analytic, from the description of a machine, and measured, from a profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/expert_rows.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// The placement of a channel's groups on the nodes of a machine; that of the slowest group if they differ.
struct GroupSpan {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;      // nodes that one group spans
  std::int64_t per_node = 1;   // most members of the group on one node
  std::int64_t sharing = 1;    // groups with members on one node, which share its links to the network
  std::int64_t stride = 1;     // distance in ranks between neighbours: the product of the inner axes' sizes
  std::int64_t job_nodes = 1;  // nodes of all ranks
  bool within_node() const { return nodes == 1; }
  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

/// Ranks are placed on nodes in order, `devices_per_node` on each.
GroupSpan group_span(const Machine& machine, const graph::Grid& grid, graph::Channel channel);

/// The placement of a group of ranks 0 to `count` − 1.
GroupSpan span_of_first_ranks(const Machine& machine, std::int64_t count);

/// All groups of `ranks` ranks that stand `stride` apart.
///
///   RankGroups{2, 4} of eight ranks: {0, 4}, {1, 5}, {2, 6}, {3, 7}
struct RankGroups {
  std::int64_t ranks = 1, stride = 1;

  /// A grid of `job_ranks` ranks in which the groups are the groups of kChannel.
  graph::Grid grid(std::int64_t job_ranks) const {
    return {.x = stride, .y = ranks, .z = job_ranks / (stride * ranks)};
  }
  static constexpr graph::Channel kChannel = graph::Channel::y;

  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// The groups of two ranks or more that an axis can form within a node of `devices` ranks beside other axes, by ranks
/// and stride. Of more than `most` the groups of innermost and outermost axes go first.
std::vector<RankGroups> groups_within_node(std::int64_t devices, std::size_t most = 12);

/// Bytes a second that each rank of the group can send on a ring through the group, while all groups of the channel do
/// the same. Within a node: the measured rate (Machine::node_groups) or the node's link; without a switch at most g − 1
/// pair links. Across nodes: the bandwidth of all ports of the node, divided by min(sharing, devices of the node) and
/// by the fabric's congestion, and at most the rate within the node. This is AxoNN's rule, b_inter / min(G_node,
/// product of inner axes) (Singh et al., SC '24, section 5; examples/comm_model.py).
double group_bandwidth(const Machine& machine, const GroupSpan& span);

/// The time of a collective that runs alone.
struct CollectiveTime {
  double seconds = 0;
  double on_link = 0;  // seconds for which its bytes occupy the link; the rest is latency and set-up
};

/// The time of a collective alone. S = bytes of the whole array, n ranks on N nodes, g = n/N, α and B the
/// latency and bandwidth of the node's or the network's link. The fastest algorithm counts, as in NCCL's tuning.
/// Algorithms by kind:
///   all:          ring: steps·α + share·S/B with n − 1 steps and share (n−1)/n, both twice for all-reduce; N − 1
///                 (twice) of the steps pay the network's α, the others the node's; a pipelined broadcast sends S
///   all-reduce:   tree: 2((g−1)·α_node + log2(N)·α_net) + 2S/B, on one node 2·log2(n)·α_node + 2S/B
///   on N nodes:   hierarchical, all-reduce only and only if the machine's library has it: within nodes
///   2(g−1)/g·S/B_node, between them 2(N−1)/N·(S/g)/B_net,
///                 with the tree's latency
/// All-gather and reduce-scatter only use a ring, whose latency grows with n, as PCCL (2504.18658) reports. A link's
/// `setup` is added once, unless its protocol for small messages is faster. The part on the link is the bytes' time
/// alone: of a hierarchical all-reduce, the bytes between nodes.
CollectiveTime collective_time(const Machine& machine, const GroupSpan& span, const graph::Operation& operation,
                               double element_bytes);

/// Seconds that the model predicts for a calibration point. Its collectives run on ranks 0, 1, … alone on the machine.
double predicted_seconds(const Machine& machine, const CalibrationPoint& point);
/// The same of a collective on all groups at once, in a job of `job_ranks` ranks.
double predicted_seconds(const Machine& machine, const CalibrationPoint& point, const RankGroups& groups,
                         std::int64_t job_ranks);
/// The same for computations, without the start of a task. A point that the machine has is predicted by itself.
double predicted_seconds(const Machine& machine, const GemmPoint& point);
double predicted_seconds(const Machine& machine, const AttentionPoint& point);

/// The cost of a computation is the longer of its time for flops (runtime/cost/measured_rates.h) and its time for
/// bytes, plus the overhead of a task. At a measured point the measured time counts in place of both. The cost of a
/// collective is collective_time(). `rows`: of experts, as they are sent and loaded.
std::unique_ptr<const CostModel> analytic_costs(const Machine& machine, const graph::Grid& grid, RowFactors rows = {});

/// Costs of the machine that Machine's defaults describe, for planning when no machine is given.
const CostModel& default_cost_model();

}  // namespace weft::cost
