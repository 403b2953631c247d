// Program order with exceptions, the basis of hand-written policies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Consecutive tasks [first, end) of the program that belong to one layer (-1: none), micro-batch and phase: one visit
/// of a pass to a layer. A task that a pass emits when it has left the task's layer, such as what follows a reduction,
/// belongs to the visit in which it stands.
struct Visit {
  std::size_t first = 0, end = 0;
  std::int32_t layer = -1, micro_batch = -1;
  graph::Phase phase = graph::Phase::forward;
};

/// All visits, in program order; every task is in exactly one.
std::vector<Visit> visits_of(const graph::Graph& graph);

/// Moves some tasks and leaves the others in program order. Tasks that depend on a moved task move with it, and no task
/// moves before one that it depends on, so the result is always a topological order.
///
///   a b c d   behind(b, c), with an edge b→d where d needs b:  a c b d
class ReorderedProgram {
 public:
  explicit ReorderedProgram(const graph::Graph& graph);
  /// Puts `task` directly before / after `anchor`; several tasks with one anchor keep program order. An
  /// invalid anchor of behind() stands for the begin of the program.
  void before(graph::TaskId task, graph::TaskId anchor) { key_[task.index()] = 3 * std::uint64_t{anchor.value}; }
  void behind(graph::TaskId task, graph::TaskId anchor) {
    key_[task.index()] = anchor.valid() ? 3 * std::uint64_t{anchor.value} + 2 : 0;
  }
  std::vector<graph::TaskId> sequence() const;

 private:
  const graph::Graph& graph_;
  std::vector<std::uint64_t> key_;  // a task that nobody moved has 3·index + 1
};

/// The reasons that program_order() gives. A code is also the index into Order::reasons.
enum ProgramReason : std::uint16_t {
  kProgramOrder,
  kInPlace,
  kWeightGradient,
  kBiasGradient,
  kEmbeddingGradient,
  kRecordedStream
};
inline constexpr plan::ReasonText kProgramTexts[] = {
    {"program order"},
    {"issued in place, waited for where its result is used"},
    {"weight gradient: off the chain of input gradients"},
    {"bias gradient: off the chain of input gradients"},
    {"embedding gradient: off the chain of input gradients"},
    {"on the stream on which it was recorded"},
};
inline constexpr plan::ReasonTable kProgramReasons{"program-order", kProgramTexts};

/// The recorded stream of an opaque task; -1: it has none.
std::int32_t recorded_stream(const graph::Task& task);
/// Recorded streams with computations, in the order of their first; -1 stands for tasks without a stream.
std::vector<std::int32_t> recorded_streams(const graph::Graph& graph);

/// `sequence` on the streams of policy `program`: with two or more compute streams, gradients of parameters are
/// computed on streams other than the first, and all contributions to one gradient on one stream. Computations that
/// were recorded on several streams stay on them, if there are as many.
plan::Order program_order(const graph::Graph& graph, const PolicyOptions& options,
                          std::span<const graph::TaskId> sequence);
/// In program order.
plan::Order program_order(const graph::Graph& graph, const PolicyOptions& options);

/// Does the task compute the gradient of a parameter, off the chain of input gradients?
bool is_side_gradient(const graph::Task& task);
/// Does the task communicate on the channel?
bool uses_channel(const graph::Task& task, graph::Channel channel);
/// Does the task gather a weight over z?
bool is_gather(const graph::Task& task);
/// The first task in program order that an edge within the step leads to from `id`; invalid if there is none.
graph::TaskId first_reader(const graph::Graph& graph, graph::TaskId id);
/// Does the task sum a gradient over the data axis in the backward pass?
bool is_data_reduction(const graph::Task& task);

/// An edge that a policy adds.
inline graph::Edge policy_edge(graph::TaskId from, graph::TaskId to,
                               graph::EdgeKind kind = graph::EdgeKind::completes_before, std::uint8_t distance = 0) {
  return {from, to, kind, graph::EdgeReason::policy, distance, graph::TensorId()};
}

/// Adds an edge to an order, unless it contradicts the order's sequence (on a graph unlike a training step's), is
/// already there or comes from no task.
class EdgeAdder {
 public:
  explicit EdgeAdder(plan::Order& order);
  /// Returns whether the order now has `from` before `to`.
  bool add(graph::TaskId from, graph::TaskId to, graph::EdgeKind kind = graph::EdgeKind::completes_before);

 private:
  plan::Order& order_;
  std::vector<std::size_t> position_;
};

}  // namespace weft::policy
