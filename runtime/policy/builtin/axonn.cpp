#include "runtime/policy/builtin/axonn.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

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
    const graph::Operation& from = graph.task(edge.from).operation;
    const auto* gemm = std::get_if<graph::Gemm>(&from);
    if (gemm != nullptr && !gemm->trans_a && !gemm->trans_b) return true;
    const auto* grouped = std::get_if<graph::GroupedGemm>(&from);
    if (grouped != nullptr && !grouped->trans_b) return true;
  }
  return false;
}

bool reduces_over_z(const graph::Task& task) {
  return task.phase == graph::Phase::backward &&
         (uses_channel(task, graph::Channel::z_scatter) || uses_channel(task, graph::Channel::expert_copies));
}

/// Does a reduction over z wait for the task, to write where the task reads?
bool frees_a_buffer(const graph::Graph& graph, graph::TaskId id) {
  return std::ranges::any_of(graph.out_edges(id), [&](const graph::Edge& edge) {
    return edge.distance == 0 && edge.reason == graph::EdgeReason::write_after_read &&
           reduces_over_z(graph.task(edge.to));
  });
}

/// A computation of the backward pass on the result of a reduction over z, such as the cast of a gradient to fp32, for
/// which no other reduction waits.
bool reads_a_reduction_over_z(const graph::Graph& graph, graph::TaskId id) {
  const graph::Task& task = graph.task(id);
  return task.phase == graph::Phase::backward && !graph::is_collective(task.operation) &&
         std::ranges::any_of(graph.in_edges(id),
                             [&](const graph::Edge& edge) {
                               return edge.distance == 0 && edge.reason == graph::EdgeReason::read_after_write &&
                                      reduces_over_z(graph.task(edge.from));
                             }) &&
         !frees_a_buffer(graph, id);
}

/// Does the backward visit compute a layer's products of the forward pass, O = I·Wᵀ, again?
bool recomputes(const graph::Graph& graph, const Visit& visit) {
  if (visit.phase != graph::Phase::backward) return false;
  for (std::size_t i = visit.first; i < visit.end; ++i) {
    if (!is_gather(graph.tasks()[i])) continue;
    const graph::TaskId reader = first_reader(graph, graph::TaskId(i));
    if (!reader.valid()) continue;
    const auto* gemm = std::get_if<graph::Gemm>(&graph.task(reader).operation);
    if (gemm != nullptr && gemm->trans_b) return true;
  }
  return false;
}

/// Gathers that are issued ahead of their own weight's use, in groups within which AxoNN looks ahead: a micro-batch's
/// forward pass, and a recomputed layer of its backward pass.
std::vector<std::vector<graph::TaskId>> gathers_ahead(const graph::Graph& graph) {
  std::vector<std::vector<graph::TaskId>> groups;
  std::optional<std::int32_t> pass;  // the micro-batch of the last group, if that is a forward pass
  for (const Visit& visit : visits_of(graph)) {
    const bool forward = visit.phase == graph::Phase::forward;
    if (!forward || visit.micro_batch != pass) groups.emplace_back();
    pass = forward ? std::optional(visit.micro_batch) : std::nullopt;
    if (!forward && !recomputes(graph, visit)) continue;
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      if (is_gather(graph.tasks()[i])) groups.back().emplace_back(i);
    }
  }
  return groups;
}

/// Walks an order as AxoNN's host program issues it, and records its waits as edges.
class Issue {
 public:
  /// `window`: how many collectives may wait for the end of the backward pass; 0: any number.
  Issue(const graph::Graph& graph, plan::Order& order, std::size_t window)
      : graph_(graph), edges_(order), window_(window) {}

  void collective(graph::TaskId id, AxonnPolicy::Code why) {
    edges_.add(last_computation_, id);
    for (const graph::TaskId pending : next_waits_for_) edges_.add(pending, id);
    switch (why) {
      case AxonnPolicy::kReduced:
        behind_gradients_.push_back(id);
        break;
      case AxonnPolicy::kScattered:
        behind_backward_.push_back(id);
        if (window_ > 0 && behind_backward_.size() > window_) {
          next_waits_for_.push_back(behind_backward_.front());
          behind_backward_.pop_front();
        }
        break;
      case AxonnPolicy::kGatheredNext:
      case AxonnPolicy::kGathered:
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
  template <class List>
  void move(List& from) {
    next_waits_for_.insert(next_waits_for_.end(), from.begin(), from.end());
    from.clear();
  }

  const graph::Graph& graph_;
  EdgeAdder edges_;
  graph::TaskId last_computation_;
  std::vector<graph::TaskId> next_waits_for_, behind_gradients_;
  std::deque<graph::TaskId> behind_backward_;
  std::size_t window_;
};

}  // namespace

AxonnPolicy::AxonnPolicy(PolicyParameters& parameters)
    : oar_(parameters.truth("oar", true)),
      ors_(parameters.truth("ors", true)),
      oag_(parameters.truth("oag", true)),
      lookahead_(parameters.integer("lookahead", 1, 1, 1 << 20)),
      window_(parameters.integer("window", 0, 0, 1 << 20)) {}

plan::Order AxonnPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  plan::streams_of(graph, options.compute_streams);  // refuses bad options, as every policy does
  ReorderedProgram program(graph);
  std::map<std::int32_t, graph::TaskId> last_of_backward;  // by micro-batch
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    if (task.phase == graph::Phase::backward) last_of_backward[task.micro_batch] = graph::TaskId(i);
  }
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::TaskId id(i);
    const bool at_the_end = is_data_reduction(graph.task(id)) || (ors_ && reads_a_reduction_over_z(graph, id));
    if (at_the_end) program.behind(id, last_of_backward.at(graph.task(id).micro_batch));
  }
  std::vector<bool> ahead(graph.tasks().size(), false);
  const auto groups = oag_ ? gathers_ahead(graph) : std::vector<std::vector<graph::TaskId>>();
  for (const std::vector<graph::TaskId>& gathers : groups) {
    for (std::size_t i = 0; i < gathers.size(); ++i) {
      const bool first_of_layer = i == 0 && graph.task(gathers[i]).phase == graph::Phase::backward;
      ahead[gathers[i].index()] = !first_of_layer;
      // Anchored at the first use of an earlier weight; the first gathers are anchored at the first weight of the
      // group.
      const std::size_t earlier = i - std::min(i, static_cast<std::size_t>(lookahead_));
      const graph::TaskId reader = first_reader(graph, gathers[earlier]);
      if (earlier < i && reader.valid() && reader < gathers[i]) program.before(gathers[i], reader);
    }
  }

  plan::Order order = program_order(graph, {.compute_streams = 1}, program.sequence());
  const auto first = static_cast<std::uint32_t>(order.reasons.size());
  for (std::uint16_t code = 0; code < std::size(kTexts); ++code)
    order.reasons.push_back({.table = &kReasons, .code = code});
  order.reasons[first + kGathered].numbers = {static_cast<std::uint64_t>(lookahead_)};
  Issue issue(graph, order, static_cast<std::size_t>(window_));
  for (plan::Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    const bool reads_last = ors_ && reads_a_reduction_over_z(graph, placement.task);
    if (task.phase != graph::Phase::backward || is_data_reduction(task) || reads_last) issue.end_of_backward();
    if (!graph::is_collective(task.operation)) {
      if (reads_last) placement.reason = first + kScattered;
      issue.computation(placement.task);
      continue;
    }
    Code why = kBlocking;
    if (is_data_reduction(task)) why = kData;
    if (ahead[placement.task.index()]) why = lookahead_ == 1 ? kGatheredNext : kGathered;
    if (ors_ && reduces_over_z(task)) why = kScattered;
    if (oar_ && reduces_input_gradient(graph, placement.task)) why = kReduced;
    placement.reason = first + why;
    issue.collective(placement.task, why);
  }
  return order;
}

}  // namespace weft::policy
