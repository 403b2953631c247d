#include "runtime/policy/scheduling/program_order.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/assertions.h"
#include "graph/analysis.h"

namespace weft::policy {
namespace {

ProgramReason side_gradient(const graph::Task& task) {
  if (task.phase != graph::Phase::backward) return kProgramOrder;
  if (const auto* gemm = std::get_if<graph::Gemm>(&task.operation); gemm != nullptr && gemm->trans_a) {
    return kWeightGradient;
  }
  if (std::holds_alternative<graph::GroupedGemmGradient>(task.operation)) return kWeightGradient;
  if (std::holds_alternative<graph::BiasGradient>(task.operation)) return kBiasGradient;
  if (std::holds_alternative<graph::EmbeddingBackward>(task.operation)) return kEmbeddingGradient;
  if (std::holds_alternative<graph::PositionBackward>(task.operation)) return kEmbeddingGradient;
  return kProgramOrder;
}

graph::TensorId written_tensor(const graph::Task& task) {
  for (const graph::Access& access : task.accesses) {
    if (access.mode != graph::AccessMode::read) return access.view.tensor;
  }
  return graph::TensorId();
}

/// By recorded stream, its place among the compute streams; empty if computations don't stay on recorded streams.
std::vector<std::int32_t> streams_to_keep(const graph::Graph& graph, int compute_streams) {
  std::vector<std::int32_t> recorded = recorded_streams(graph);
  if (recorded.size() < 2 || recorded.size() > static_cast<std::size_t>(compute_streams)) recorded.clear();
  return recorded;
}

}  // namespace

std::int32_t recorded_stream(const graph::Task& task) {
  const auto* opaque = std::get_if<graph::Opaque>(&task.operation);
  return opaque == nullptr ? -1 : opaque->stream;
}

std::vector<std::int32_t> recorded_streams(const graph::Graph& graph) {
  std::vector<std::int32_t> streams;
  for (const graph::Task& task : graph.tasks()) {
    if (graph::channel_of(task.operation) != nullptr) continue;
    const std::int32_t stream = recorded_stream(task);
    if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
  }
  if (streams.empty()) streams.push_back(-1);
  return streams;
}

std::vector<Visit> visits_of(const graph::Graph& graph) {
  std::vector<Visit> visits;
  std::set<std::int32_t> layers;  // of this pass so far
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const bool same_pass =
        !visits.empty() && visits.back().micro_batch == task.micro_batch && visits.back().phase == task.phase;
    if (!same_pass) layers.clear();
    const bool put_off = task.layer >= 0 && layers.contains(task.layer);
    if (!same_pass || (visits.back().layer != task.layer && !put_off)) {
      visits.push_back({i, i, task.layer, task.micro_batch, task.phase});
      layers.insert(task.layer);
    }
    assert_that("every task is in exactly one visit", [&] { return visits.back().end == i; });
    visits.back().end = i + 1;
  }
  return visits;
}

ReorderedProgram::ReorderedProgram(const graph::Graph& graph) : graph_(graph), key_(graph.tasks().size()) {
  for (std::size_t i = 0; i < key_.size(); ++i) key_[i] = 3 * i + 1;
}

std::vector<graph::TaskId> ReorderedProgram::sequence() const {
  std::vector<std::uint64_t> key = key_;
  std::vector<graph::TaskId> sequence(key.size());
  // Edges are sorted by target and go to higher numbers: a task's key is final before it is passed on.
  for (const graph::Edge& edge : graph_.edges()) {
    if (edge.distance == 0) key[edge.to.index()] = std::max(key[edge.to.index()], key[edge.from.index()]);
  }
  for (std::size_t i = 0; i < key.size(); ++i) sequence[i] = graph::TaskId(i);
  std::ranges::sort(sequence, [&](graph::TaskId a, graph::TaskId b) {
    return std::tuple(key[a.index()], a) < std::tuple(key[b.index()], b);
  });
  assert_that("no task comes before one that it depends on",
              [&] { return graph::why_not_topological(graph_, sequence).empty(); });
  return sequence;
}

plan::Order program_order(const graph::Graph& graph, const PolicyOptions& options,
                          std::span<const graph::TaskId> sequence) {
  plan::Order order;
  order.streams = plan::streams_of(graph, options.compute_streams);
  for (std::size_t code = 0; code < std::size(kProgramTexts); ++code)
    order.reasons.push_back({.table = &kProgramReasons, .code = static_cast<std::uint16_t>(code)});
  const auto side_streams = static_cast<std::size_t>(options.compute_streams) - 1;
  const std::vector<std::int32_t> kept = streams_to_keep(graph, options.compute_streams);
  std::unordered_map<graph::TensorId, plan::StreamId> stream_of_gradient;
  order.sequence.reserve(sequence.size());
  for (const graph::TaskId id : sequence) {
    const graph::Task& task = graph.task(id);
    plan::Placement placement{id, plan::StreamId(std::size_t{0}), 0};
    if (const graph::Channel* channel = graph::channel_of(task.operation)) {
      placement.stream = plan::stream_of_channel(order.streams, *channel);
      placement.reason = kInPlace;
    } else if (!kept.empty()) {
      const auto at = std::ranges::find(kept, recorded_stream(task)) - kept.begin();
      placement.stream = plan::StreamId(static_cast<std::size_t>(at));
      placement.reason = kRecordedStream;
    } else if (is_side_gradient(task) && side_streams > 0) {
      const plan::StreamId next(1 + stream_of_gradient.size() % side_streams);
      placement.stream = stream_of_gradient.try_emplace(written_tensor(task), next).first->second;
      placement.reason = side_gradient(task);
    }
    order.sequence.push_back(placement);
  }
  return order;
}

plan::Order program_order(const graph::Graph& graph, const PolicyOptions& options) {
  return program_order(graph, options, ReorderedProgram(graph).sequence());
}

bool is_side_gradient(const graph::Task& task) {
  return side_gradient(task) != kProgramOrder;
}

bool uses_channel(const graph::Task& task, graph::Channel channel) {
  const graph::Channel* own = graph::channel_of(task.operation);
  return own != nullptr && *own == channel;
}

bool is_gather(const graph::Task& task) {
  return uses_channel(task, graph::Channel::z_gather) && graph::kind_name(task.operation) == graph::AllGather::kind;
}

graph::TaskId first_reader(const graph::Graph& graph, graph::TaskId id) {
  graph::TaskId first;
  for (const graph::Edge& edge : graph.out_edges(id)) {
    if (edge.distance == 0 && (!first.valid() || edge.to < first)) first = edge.to;
  }
  return first;
}

bool is_data_reduction(const graph::Task& task) {
  const std::string_view kind = graph::kind_name(task.operation);
  return uses_channel(task, graph::Channel::data) && task.phase == graph::Phase::backward &&
         (kind == graph::AllReduce::kind || kind == graph::ReduceScatter::kind);
}

EdgeAdder::EdgeAdder(plan::Order& order) : order_(order), position_(order.sequence.size()) {
  for (std::size_t i = 0; i < order.sequence.size(); ++i) position_[order.sequence[i].task.index()] = i;
}

bool EdgeAdder::add(graph::TaskId from, graph::TaskId to, graph::EdgeKind kind) {
  if (!from.valid()) return false;
  const std::size_t a = position_[from.index()], b = position_[to.index()];
  if (a >= b) return false;
  if (order_.sequence[a].stream == order_.sequence[b].stream) return true;  // the queue implies it
  order_.added_edges.push_back(policy_edge(from, to, kind));
  return true;
}

}  // namespace weft::policy
