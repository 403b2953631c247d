// Cost models: analytic, from the description of a machine, and measured, from a profile.
#pragma once

#include <memory>

#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// How the groups of a channel lie on the nodes of a machine; of the worst one, if they differ.
struct GroupSpan {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;     // that one group lies on
  std::int64_t per_node = 1;  // its most members in one node
  std::int64_t sharing = 1;   // groups that meet in one node, and so share its links to the network
  std::int64_t stride = 1;    // distance of neighbours: the product of the axes inside
  bool within_node() const { return nodes == 1; }
  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

/// Ranks are placed on nodes in order, `devices_per_node` on each.
GroupSpan group_span(const Machine& machine, const graph::Grid& grid, graph::Channel channel);

/// Bytes a second that each rank of such a group can send on a ring through all of it while all groups of the channel
/// do. Within a node: what was measured (Machine::node_groups), or else the node's link, and without a switch no more
/// than g − 1 of its pairs' links. Across nodes: what the node's ports carry together by min(sharing, devices of the
/// node), and no more than within the node. That is AxoNN's rule, b_inter / min(G_node, product of inner axes)
/// (Singh et al., SC '24, section 5; examples/comm_model.py).
double group_bandwidth(const Machine& machine, const GroupSpan& span);

/// How long a collective takes alone. S = bytes of the whole array, n ranks on N nodes, g = n/N, α and B of the node's
/// and the network's link; of the algorithms the fastest counts, as in NCCL's tuning, which has for
///   all:          ring: steps·α + share·S/B with n − 1 steps and share (n−1)/n, both twice for all-reduce; N − 1
///                 (twice) of the steps pay the network's α, the others the node's; a pipelined broadcast sends S
///   all-reduce:   tree: 2((g−1)·α_node + log2(N)·α_net) + 2S/B, on one node 2·log2(n)·α_node + 2S/B
///   on N nodes:   hierarchical, all-reduce only: within nodes 2(g−1)/g·S/B_node, between them 2(N−1)/N·(S/g)/B_net,
///                 with the tree's latency
/// All-gather and reduce-scatter have their ring alone, whose latency grows with n: what PCCL (2504.18658) reports.
/// A link with `setup` adds it once, unless its small messages' protocol is faster.
double collective_seconds(const Machine& machine, const GroupSpan& span, const graph::Operation& operation,
                          double element_bytes);

/// What the model says of a calibration point. Collectives are of ranks 0, 1, … alone on the machine.
double predicted_seconds(const Machine& machine, const CalibrationPoint& point);

/// Computations by flops or bytes, whichever takes longer, plus the start of a task; products whose least size is small
/// reach flops/(1 + gemm_half/min(m, n, k)). Collectives as collective_seconds() has them.
std::unique_ptr<const CostModel> analytic_costs(const Machine& machine, const graph::Grid& grid);

/// Of the machine that Machine's defaults describe: enough to plan by when nobody said what to plan for.
const CostModel& default_cost_model();

}  // namespace weft::cost
