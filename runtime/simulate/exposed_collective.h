// Exposed collectives, during which no computation runs, and their causes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// The reason why no computation overlapped with an exposed collective.
enum class ExposureCause : std::uint8_t {
  data_dependency,    // it ran as early as its inputs allowed, and no computation could run meanwhile
  computation_order,  // computations that don't need it were ready, but the stream ran them after a task that does
  local_task,         // a small computation that belongs to it stood in the way: it ran late, or blocked its stream
  queued,             // its inputs were ready, but its stream was busy with another collective
  chosen,             // an edge of the policy, or one by which tensors share memory, delayed it or what could hide it
  memory_limit,       // the policy delayed it to keep the memory limit
  contention,         // it took longer than alone, because other tasks shared its link or cores
  members,            // other stages of a pipeline weren't ready for it
};

std::string_view to_string(ExposureCause cause);
/// The enumerator's name, for programs that read it: it stays when the words of to_string() change.
std::string_view identifier_of(ExposureCause cause);

struct ExposedCollective {
  graph::TaskId task;
  double exposed_ns = 0, duration_ns = 0, alone_ns = 0;
  double ready_ns = 0, begin_ns = 0;  // since the step's begin: when its inputs were ready, when it started
  graph::TaskId input;                // the task that made its data, the last of them; invalid: the step before did
  ExposureCause cause = ExposureCause::data_dependency;
  graph::TaskId in_the_way;  // the task that stands in the way, by the cause; invalid if there is none
  std::string because;       // the cause with names

  /// From when its data were there to its begin.
  double late_ns() const { return begin_ns - ready_ns; }
  /// By how much earlier it had to begin, and could, to be hidden.
  double too_late_ns() const { return std::min(exposed_ns, std::max(0.0, late_ns())); }
};

/// What a collective of a model with experts, or of sequences that ranks share, is for, in words; "" of the others,
/// whose kinds say it.
std::string_view purpose_of(const graph::Operation& operation);

/// A computation, no product or attention, whose result no other computation of its pass reads, such as the cast of a
/// reduced gradient.
bool is_local(const graph::Graph& graph, graph::TaskId task);

/// The collective with its cause, without remedies; nullopt if it is exposed for less than `least_ns`.
std::optional<ExposedCollective> exposed_collective(const SimulatedStep& step, graph::TaskId task, double least_ns);

}  // namespace weft::simulate
