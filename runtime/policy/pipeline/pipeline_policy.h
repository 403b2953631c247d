// The base of policies that order the stages of a pipeline.
#pragma once

#include <optional>
#include <vector>

#include "runtime/policy/pipeline/class_units.h"
#include "runtime/policy/pipeline/joint_orders.h"
#include "runtime/policy/pipeline/pipeline.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// A program, its units and its costs; each list is by pipeline rank.
struct PipelineProgram {
  graph::Classes classes;
  PipelineShape shape;
  std::vector<ClassUnits> units = {};
  std::vector<cost::TaskCosts> costs = {};
  double memory_part = 1;  // of the options' limits, which schedules() may use
};

/// A schedule of each rank, and how it was chosen among several.
struct PipelineSchedules {
  std::vector<RankSchedule> ranks;
  std::optional<plan::Selection> selection = {};
};

/// Schedules of units become orders of tasks by joint_orders(). Computations use the first compute stream and leave
/// others idle. A program without stages is ordered as by `program`.
class PipelinePolicy : public Policy {
 public:
  PolicyScope scope() const final { return PolicyScope::pipelines; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const final;

 protected:
  /// A schedule of each rank, which has each of its units once.
  virtual PipelineSchedules schedules(const PipelineProgram& program, const PolicyOptions& options) const = 0;
  /// Whether schedules() keeps the options' memory limit on the bytes alive. A plan has gaps between its tensors, so
  /// it is asked again with smaller parts of the limit, up to four times, until the plans keep the limit.
  virtual bool keeps_limits() const { return false; }
};

/// The orders of schedules.
std::vector<plan::Order> orders_of(const PipelineProgram& program, const PipelineSchedules& schedules,
                                   const PolicyOptions& options);

}  // namespace weft::policy
