// Exposed collectives, during which no computation runs, and their causes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// The reason why no computation overlapped with an exposed collective.
enum class ExposureCause : std::uint8_t {
  data_dependency,    // it ran as early as its inputs allowed, and no computation could run meanwhile
  computation_order,  // computations that don't need it were ready, but the stream ran them after a task that does
  queued,             // its inputs were ready, but its stream was busy with another collective
  chosen,             // an edge of the policy delayed it, or an edge by which tensors share memory
  memory_limit,       // the policy delayed it to keep the memory limit
  contention,         // it took longer than alone, because other tasks shared its link or cores
};

std::string_view to_string(ExposureCause cause);
/// The enumerator's name, for programs that read it: it stays when the words of to_string() change.
std::string_view identifier_of(ExposureCause cause);

/// A change of the order or the graph, and its simulated effect.
struct Remedy {
  std::string what;    // "issue it before L1.mlp.up.bwd.all_reduce_dx"
  double gain_ns = 0;  // by how much the step becomes shorter; ≤ 0: it doesn't help
};

struct ExposedCollective {
  graph::TaskId task;
  double exposed_ns = 0, duration_ns = 0, alone_ns = 0;
  double ready_ns = 0, begin_ns = 0;  // since the step's begin: when its inputs were ready, when it started
  ExposureCause cause = ExposureCause::data_dependency;
  std::string because;           // the cause with names
  std::vector<Remedy> remedies;  // by falling gain
};

/// The collective with its cause, without remedies; nullopt if it is exposed for less than `least_ns`.
std::optional<ExposedCollective> exposed_collective(const SimulatedStep& step, graph::TaskId task, double least_ns);

}  // namespace weft::simulate
