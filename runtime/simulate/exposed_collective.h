// A collective that no computation hides, and the cause of that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {

/// What kept an exposed collective from running behind computations.
enum class ExposureCause : std::uint8_t {
  data_dependency,    // it ran as early as its inputs allowed, and nothing else could be computed meanwhile
  computation_order,  // computations that didn't need it were ready, but stood behind one that did
  queued,             // its inputs were there, but its stream was busy with another collective
  chosen,             // an edge of the policy held it back, or one that lets tensors share memory
  memory_limit,       // so did the policy, for memory's sake
  contention,         // it took longer than alone, because others shared its link
};

std::string_view to_string(ExposureCause cause);

/// A change that was simulated.
struct Remedy {
  std::string what;    // "issue it before L1.mlp.up.bwd.all_reduce_dx"
  double gain_ns = 0;  // how much shorter the step becomes; ≤ 0: it doesn't help
};

struct ExposedCollective {
  graph::TaskId task;
  double exposed_ns = 0, duration_ns = 0, alone_ns = 0;
  double ready_ns = 0, begin_ns = 0;  // since the step's begin: when its inputs were there, when it started
  ExposureCause cause = ExposureCause::data_dependency;
  std::string because;           // the cause with names
  std::vector<Remedy> remedies;  // by falling gain
};

/// With its cause, without remedies; nothing if it is exposed for less than `least_ns`.
std::optional<ExposedCollective> exposed_collective(const SimulatedStep& step, graph::TaskId task, double least_ns);

}  // namespace weft::simulate
