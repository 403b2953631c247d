// How long a step with pipeline stages takes, and how much memory: estimated from steps of few layers and micro-batches
// that schedules of pipelines order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "runtime/policy/catalog/policies.h"
#include "study/search/choice.h"
#include "train/config/resolved_run.h"

namespace weft::study {

/// Plans and simulates all stages of steps of one and two layers a stage, and of two and three micro-batches a rank.
/// Each layer and each micro-batch more is taken to add the same time and memory, and every stage to have as many
/// layers as the longest. A step as small as these is planned as it is.
class StageSteps {
 public:
  struct Step {
    double ns = std::numeric_limits<double>::infinity();
    std::int64_t bytes = 0;
  };

  /// `run` is filled in, but for its grid and its micro-batch. The run and the schedules must outlive the object.
  StageSteps(const train::ResolvedRun& run, const Choice& choice, std::span<const policy::NamedPolicy> schedules)
      : run_(run), choice_(choice), schedules_(schedules) {}

  /// The shortest step of the schedules that takes at most `limit` bytes (0: any), with the grid's axes in this order;
  /// if all take more, the one that takes the least. nullopt if no schedule orders these stages.
  std::optional<Step> best(const std::array<graph::Axis, 4>& order, std::int64_t limit) const;

 private:
  std::optional<Step> step_by(const policy::NamedPolicy& schedule, const std::array<graph::Axis, 4>& order) const;

  const train::ResolvedRun& run_;
  const Choice choice_;
  std::span<const policy::NamedPolicy> schedules_;
};

}  // namespace weft::study
