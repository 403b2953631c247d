// The tasks of one rank class, divided into the units that pipeline schedules order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/policy/pipeline/pipeline.h"

namespace weft::policy {

/// A unit's tasks keep program order. Of the backward tasks of a virtual stage and micro-batch,
/// - `input` has each that the gradient sent to the previous stage depends on, and the send itself; on virtual stage 0
///   each that the gradients of embeddings depend on, without these gradients;
/// - `weight` has the others: gradients of weights and biases, and their reductions.
/// Where no gradient leaves the stage and no embedding takes it, `input` has all.
///
/// Tasks without stage or micro-batch, and updates, are in no unit. Of these, `first` stand before every unit in the
/// program (a weight that is gathered or packed once a step), `last` are the others (updates, norms, metrics).
class ClassUnits {
 public:
  ClassUnits(const graph::Graph& graph, const PipelineShape& shape);

  /// Empty for a unit that the class doesn't have. `backward` isn't stored; ask for its two parts.
  std::span<const graph::TaskId> tasks_of(const Unit& unit) const {
    const UnitId id = shape_.id(unit);
    return std::span(tasks_).subspan(begin_[id], begin_[id + 1] - begin_[id]);
  }
  std::span<const graph::TaskId> first() const { return first_; }
  std::span<const graph::TaskId> last() const { return last_; }

 private:
  PipelineShape shape_;
  std::vector<std::uint32_t> begin_;  // by unit, into tasks_
  std::vector<graph::TaskId> tasks_, first_, last_;
};

}  // namespace weft::policy
