#include "runtime/policy/builtin/axonn.h"

#include <utility>
#include <vector>

#include "runtime/policy/scheduling/arrangement.h"

namespace weft {
namespace {

/// Indices into the order's reasons.
enum Why : std::uint32_t { kProgramOrder, kBlocking, kBehindGradients, kBehindBackward, kGatheredAhead, kDataLast };

bool uses_channel(const Task& task, Channel channel) {
  const Channel* own = channel_of(task.operation);
  return own != nullptr && *own == channel;
}

/// A sum of dI = dO·W over x or y: what it sums was written by a product of two matrices that aren't transposed.
bool reduces_input_gradient(const Graph& graph, TaskId id) {
  const Task& task = graph.task(id);
  if (task.phase != Phase::backward || !(uses_channel(task, Channel::x) || uses_channel(task, Channel::y))) {
    return false;
  }
  if (std::holds_alternative<AllGather>(task.operation)) return false;
  for (const Edge& edge : graph.in_edges(id)) {
    if (edge.distance != 0 || edge.reason != EdgeReason::read_after_write) continue;
    const auto* gemm = std::get_if<Gemm>(&graph.task(edge.from).operation);
    if (gemm != nullptr && !gemm->trans_a && !gemm->trans_b) return true;
  }
  return false;
}

bool reduces_over_z(const Task& task) {
  return task.phase == Phase::backward && uses_channel(task, Channel::z_scatter);
}

TaskId first_reader(const Graph& graph, TaskId id) {
  TaskId first;
  for (const std::uint32_t index : graph.out_edges(id)) {
    const Edge& edge = graph.edges()[index];
    if (edge.distance == 0 && (!first.valid() || edge.to < first)) first = edge.to;
  }
  return first;
}

/// Walks an order as AxoNN's host program issues it, and writes down who waits for whom.
class Issue {
 public:
  Issue(const Graph& graph, Order& order) : graph_(graph), edges_(order) {}

  void collective(TaskId id, Why why) {
    if (last_computation_.valid()) edges_.add(last_computation_, id);
    for (const TaskId pending : next_waits_for_) edges_.add(pending, id);
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
        next_waits_for_ = {id};  // it waits for the others itself
    }
  }

  void computation(TaskId id) {
    if (!is_side_gradient(graph_.task(id))) move(behind_gradients_);
    for (const TaskId pending : next_waits_for_) edges_.add(pending, id);
    next_waits_for_.clear();
    last_computation_ = id;
  }

  void end_of_backward() { move(behind_backward_); }

 private:
  void move(std::vector<TaskId>& from) {
    next_waits_for_.insert(next_waits_for_.end(), from.begin(), from.end());
    from.clear();
  }

  const Graph& graph_;
  EdgeAdder edges_;
  TaskId last_computation_;
  std::vector<TaskId> next_waits_for_, behind_gradients_, behind_backward_;
};

}  // namespace

AxonnPolicy::AxonnPolicy(PolicyParameters& parameters)
    : oar_(parameters.truth("oar", true)),
      ors_(parameters.truth("ors", true)),
      oag_(parameters.truth("oag", true)),
      lookahead_(parameters.integer("lookahead", 1, 1, 1 << 20)) {}

Order AxonnPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  streams_of(graph, options.compute_streams);  // refuses a bad option as every policy does
  Arrangement arrangement(graph);
  TaskId last_of_backward;
  std::vector<TaskId> gathers;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    if (task.phase == Phase::backward) last_of_backward = TaskId(i);
    if (oag_ && task.phase == Phase::forward && is_gather(task)) gathers.emplace_back(i);
  }
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    if (is_data_reduction(graph.tasks()[i])) arrangement.behind(TaskId(i), last_of_backward);
  }
  for (std::size_t i = 1; i < gathers.size(); ++i) {
    // The first use of an earlier weight in this pass; the first gathers of a pass go with its first.
    std::size_t earlier = i;
    while (earlier > 0 && i - earlier < static_cast<std::size_t>(lookahead_) &&
           graph.task(gathers[earlier - 1]).micro_batch == graph.task(gathers[i]).micro_batch) {
      --earlier;
    }
    const TaskId reader = first_reader(graph, gathers[earlier]);
    if (earlier < i && reader.valid() && reader < gathers[i]) arrangement.before(gathers[i], reader);
  }

  Order order = program_order(graph, {.compute_streams = 1}, arrangement.sequence());
  const Reason gathered =
      lookahead_ == 1 ? Reason{.kind = ReasonKind::axonn_gathered_next}
                      : Reason{.kind = ReasonKind::axonn_gathered, .numbers = {static_cast<std::uint64_t>(lookahead_)}};
  order.reasons = {{.kind = ReasonKind::program_order},
                   {.kind = ReasonKind::axonn_blocking},
                   {.kind = ReasonKind::axonn_reduced},
                   {.kind = ReasonKind::axonn_scattered},
                   gathered,
                   {.kind = ReasonKind::axonn_data}};
  Issue issue(graph, order);
  for (Placement& placement : order.sequence) {
    const Task& task = graph.task(placement.task);
    if (task.phase == Phase::update || is_data_reduction(task)) issue.end_of_backward();
    Why why = kProgramOrder;
    if (is_collective(task.operation)) {
      why = kBlocking;
      if (is_data_reduction(task)) why = kDataLast;
      if (oag_ && task.phase == Phase::forward && is_gather(task)) why = kGatheredAhead;
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

}  // namespace weft
