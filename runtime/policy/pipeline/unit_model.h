// Times and bytes of the units of a pipeline, by which searches compare schedules without looking at tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/policy/pipeline/pipeline_policy.h"

namespace weft::policy {

/// By rank: its units in the order in which it runs them.
using UnitSequences = std::vector<std::vector<UnitId>>;

/// Units run one at a time on a rank, each for the time that its tasks take alone. A unit's message leaves at its end
/// and takes its cost. A unit takes bytes at its begin and frees bytes at its end: those of tensors that several units
/// of the rank use. Each rank also takes bytes for as long as the step: the most that tensors of one unit take
/// together, and gradients that add up over micro-batches.
class UnitModel {
 public:
  /// `options`: the memory limits, of which the program may use a part.
  UnitModel(const PipelineProgram& program, const PolicyOptions& options);

  const PipelineShape& shape() const { return shape_; }
  std::size_t size() const { return units_.size(); }
  std::int32_t rank_of(UnitId id) const { return shape_.rank_of(shape_.unit(id).stage); }

  struct Costs {
    double ns = 0, message_ns = 0;
    std::int64_t takes = 0, frees = 0;
    bool exists = false;
  };
  const Costs& operator[](UnitId id) const { return units_[id]; }
  std::int64_t base(std::int32_t rank) const { return base_[static_cast<std::size_t>(rank)]; }
  /// Bytes that a rank may take; the largest number if there is no limit.
  std::int64_t limit(std::int32_t rank) const { return limit_[static_cast<std::size_t>(rank)]; }

  /// The units that a unit waits for: of the neighbouring virtual stage, and of its own. Gradients of weights add up
  /// in the order of micro-batches, so there the neighbour is the micro-batch before.
  struct Before {
    std::optional<UnitId> neighbour, own;
  };
  Before before(UnitId id) const;
  /// When the unit can begin, by the ends of those before it; infinite if one of them has no end yet. A unit without
  /// tasks ends when it can begin.
  double ready(UnitId id, const std::vector<double>& end) const;

  /// By unit: its time and the longest way from its end to the end of the step, through messages.
  std::vector<double> ways_to_end() const;

  /// The units of schedules, with whole backward passes and pairs taken apart.
  UnitSequences sequences_of(const std::vector<RankSchedule>& schedules) const;

 private:
  void measure(const PipelineProgram& program, std::int32_t rank);
  void weigh(const PipelineProgram& program, std::int32_t rank);

  PipelineShape shape_;
  std::vector<Costs> units_;
  std::vector<std::int64_t> base_, limit_;  // by rank
};

/// A step of sequences in the model. Infinite makespan: ranks wait for each other in a cycle.
struct UnitTimes {
  double makespan = std::numeric_limits<double>::infinity();
  bool fits = true;        // each rank within its limit
  std::int64_t bytes = 0;  // the most that a rank takes
};

/// Evaluates sequences again and again without allocating.
class UnitClock {
 public:
  explicit UnitClock(const UnitModel& model)
      : model_(model), end_(model.size()), next_(static_cast<std::size_t>(model.shape().ranks)) {}
  UnitTimes times_of(const UnitSequences& sequences);
  /// By unit, of the last sequences: when it ended.
  const std::vector<double>& ends() const { return end_; }

 private:
  const UnitModel& model_;
  std::vector<double> end_;
  std::vector<std::size_t> next_;
};

}  // namespace weft::policy
