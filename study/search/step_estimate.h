// How long a step of many layers and micro-batches takes, and how much memory: estimated from steps of few layers and
// micro-batches that are planned and simulated.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "study/search/step_needs.h"

namespace weft::study {

/// A step planned by one simple policy, whose order depends neither on costs nor on the order of axes. Up to four small
/// steps are planned, without a memory limit; each layer and each micro-batch more is taken to add the same time and
/// memory. A step as small as these is planned as it is.
class StepEstimate {
 public:
  StepEstimate(const StepFamily& family, policy::NamedPolicy policy);

  const std::string& policy() const { return policy_.name; }
  std::int64_t memory_bytes() const;  // state and scratch
  /// Simulates the small steps with the grid's axes in this order. Throws the exceptions of simulate().
  double step_ns(const std::array<graph::Axis, 4>& order) const;

 private:
  struct SmallStep {
    std::int64_t layers = 1, micro_batches = 1;
    std::shared_ptr<const plan::Plan> plan;
  };
  template <class Value>
  double extrapolated(const Value& value) const;

  const StepFamily& family_;
  policy::NamedPolicy policy_;
  std::array<std::int64_t, 2> layers_{}, micro_batches_{};  // few and more of them; equal: all that the step has
  std::vector<SmallStep> steps_;
};

/// The memory of the step's plans under the first policy that keeps the limit (0: any): the fast one's, else that of
/// more and more frugal ones; nullopt if none does. A list schedule under a limit comes near the fast order's time with
/// the frugal one's memory. `least_bytes` gets the least memory that was tried.
std::optional<std::int64_t> memory_within(const StepFamily& family, const StepEstimate& fast, std::int64_t limit,
                                          std::int64_t& least_bytes);

}  // namespace weft::study
