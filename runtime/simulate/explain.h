// Why a collective is exposed, and what would hide it: read off a simulated step, and simulated again with the change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulate/plan_report.h"

namespace weft {

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
  TaskId task;
  double exposed_ns = 0, duration_ns = 0, alone_ns = 0;
  double ready_ns = 0, begin_ns = 0;  // since the step's begin: when its inputs were there, when it started
  ExposureCause cause = ExposureCause::data_dependency;
  std::string because;           // the cause with names
  std::vector<Remedy> remedies;  // by falling gain
};

/// A piece of the chain of tasks that the step's length comes from: of one kind, one after the other.
struct PathPiece {
  std::string kind;  // "gemm", "all_reduce on y"
  Phase phase = Phase::forward;
  std::string first, last;
  std::int64_t tasks = 0;
  double ns = 0;
};

/// Exposed collectives of one cause that differ in the numbers of layer and micro-batch alone.
struct ExposureGroup {
  std::string name;                  // "mb*.L*.mlp.up.bwd.all_reduce_dx"; of a single one its own
  std::vector<std::size_t> members;  // of Explanation::collectives, by falling exposed time
  double exposed_ns = 0;             // sum
};

struct Explanation {
  std::vector<ExposedCollective> collectives;  // by falling exposed time
  std::vector<ExposureGroup> groups;           // each collective in one, by falling exposed time
  std::vector<PathPiece> path;                 // in time
  std::vector<Remedy> rewrites;                // of the whole graph under the same policy, by falling gain
};

struct ExplainOptions {
  std::string only;               // the name of one collective; "": all
  double least_ns = 1000;         // exposed for less isn't worth a word
  std::size_t most_remedied = 8;  // collectives whose remedies are simulated: the worst of each group, then others
  bool rewrites = true;           // try the exact rewrites too
};

/// `report` is planned, on this problem. Throws UserError if `only` names no collective of the plan.
Explanation explain(const PlanningProblem& problem, const PlanReport& report, const ExplainOptions& options);

}  // namespace weft
