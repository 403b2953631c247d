#include "runtime/policy/builtin/axonn.h"

#include <utility>
#include <vector>

#include "runtime/policy/scheduling/arrangement.h"

namespace weft::policy {
namespace {

/// Indices into the order's reasons.
enum Why : std::uint32_t { kProgramOrder, kBlocking, kBehindGradients, kBehindBackward, kGatheredAhead, kDataLast };

bool uses_channel(const graph::Task& task, graph::Channel channel) {
  const graph::Channel* own = graph::channel_of(task.operation);
  return own != nullptr && *own == channel;
}

/// A sum of dI = dO·W over x or y: its buffer was written by a product of two matrices that aren't transposed.
bool reduces_input_gradient(const graph::Graph& graph, graph::TaskId id) {
  const graph::Task& task = graph.task(id);
  if (task.phase != graph::Phase::backward ||
      !(uses_channel(task, graph::Channel::x) || uses_channel(task, graph::Channel::y))) {
    return false;
  }
  if (std::holds_alternative<graph::AllGather>(task.operation)) return false;
  for (const graph::Edge& edge : graph.in_edges(id)) {
    if (edge.distance != 0 || edge.reason != graph::EdgeReason::read_after_write) continue;
    const auto* gemm = std::get_if<graph::Gemm>(&graph.task(edge.from).operation);
    if (gemm != nullptr && !gemm->trans_a && !gemm->trans_b) return true;
  }
  return false;
}

bool reduces_over_z(const graph::Task& task) {
  return task.phase == graph::Phase::backward && uses_channel(task, graph::Channel::z_scatter);
}

graph::TaskId first_reader(const graph::Graph& graph, graph::TaskId id) {
  graph::TaskId first;
  for (const std::uint32_t index : graph.out_edges(id)) {
    const graph::Edge& edge = graph.edges()[index];
    if (edge.distance == 0 && (!first.valid() || edge.to < first)) first = edge.to;
  }
  return first;
}

/// Walks an order as AxoNN's host program issues it, and records its waits as edges.
class Issue {
 public:
  Issue(const graph::Graph& graph, plan::Order& order) : graph_(graph), edges_(order) {}

  void collective(graph::TaskId id, Why why) {
    if (last_computation_.valid()) edges_.add(last_computation_, id);
    for (const graph::TaskId pending : next_waits_for_) edges_.add(pending, id);
    switch (why) {
      case kBehindGradients:
        behind_gradients_.push_back(id);
        break;
      case kBehindBackward:
        behind_backward_.push_back(id);
        break;
      case kGatheredAhead:
        break;
      default:
        next_waits_for_ = {id};  // this collective itself waits for the others
    }
  }

  void computation(graph::TaskId id) {
    if (!is_side_gradient(graph_.task(id))) move(behind_gradients_);
    for (const graph::TaskId pending : next_waits_for_) edges_.add(pending, id);
    next_waits_for_.clear();
    last_computation_ = id;
  }

  void end_of_backward() { move(behind_backward_); }

 private:
  void move(std::vector<graph::TaskId>& from) {
    next_waits_for_.insert(next_waits_for_.end(), from.begin(), from.end());
    from.clear();
  }

  const graph::Graph& graph_;
  EdgeAdder edges_;
  graph::TaskId last_computation_;
  std::vector<graph::TaskId> next_waits_for_, behind_gradients_, behind_backward_;
};

}  // namespace

AxonnPolicy::AxonnPolicy(PolicyParameters& parameters)
    : oar_(parameters.truth("oar", true)),
      ors_(parameters.truth("ors", true)),
      oag_(parameters.truth("oag", true)),
      lookahead_(parameters.integer("lookahead", 1, 1, 1 << 20)) {}

plan::Order AxonnPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  plan::streams_of(graph, options.compute_streams);  // refuses bad options, as every policy does
  Arrangement arrangement(graph);
  graph::TaskId last_of_backward;
  std::vector<graph::TaskId> gathers;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    if (task.phase == graph::Phase::backward) last_of_backward = graph::TaskId(i);
    if (oag_ && task.phase == graph::Phase::forward && is_gather(task)) gathers.emplace_back(i);
  }
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    if (is_data_reduction(graph.tasks()[i])) arrangement.behind(graph::TaskId(i), last_of_backward);
  }
  for (std::size_t i = 1; i < gathers.size(); ++i) {
    // Anchored at the first use of an earlier weight in this pass; the pass's first gathers are anchored at its first
    // weight.
    std::size_t earlier = i;
    while (earlier > 0 && i - earlier < static_cast<std::size_t>(lookahead_) &&
           graph.task(gathers[earlier - 1]).micro_batch == graph.task(gathers[i]).micro_batch) {
      --earlier;
    }
    const graph::TaskId reader = first_reader(graph, gathers[earlier]);
    if (earlier < i && reader.valid() && reader < gathers[i]) arrangement.before(gathers[i], reader);
  }

  plan::Order order = program_order(graph, {.compute_streams = 1}, arrangement.sequence());
  const plan::Reason gathered = lookahead_ == 1 ? plan::Reason{.kind = plan::ReasonKind::axonn_gathered_next}
                                                : plan::Reason{.kind = plan::ReasonKind::axonn_gathered,
                                                               .numbers = {static_cast<std::uint64_t>(lookahead_)}};
  order.reasons = {{.kind = plan::ReasonKind::program_order},
                   {.kind = plan::ReasonKind::axonn_blocking},
                   {.kind = plan::ReasonKind::axonn_reduced},
                   {.kind = plan::ReasonKind::axonn_scattered},
                   gathered,
                   {.kind = plan::ReasonKind::axonn_data}};
  Issue issue(graph, order);
  for (plan::Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    if (task.phase == graph::Phase::update || is_data_reduction(task)) issue.end_of_backward();
    Why why = kProgramOrder;
    if (graph::is_collective(task.operation)) {
      why = kBlocking;
      if (is_data_reduction(task)) why = kDataLast;
      if (oag_ && task.phase == graph::Phase::forward && is_gather(task)) why = kGatheredAhead;
      if (ors_ && reduces_over_z(task)) why = kBehindBackward;
      if (oar_ && reduces_input_gradient(graph, placement.task)) why = kBehindGradients;
      issue.collective(placement.task, why);
    } else {
      issue.computation(placement.task);
    }
    placement.reason = why;
  }
  return order;
}

}  // namespace weft::policy
