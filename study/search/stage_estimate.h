// What pipeline stages make of a step that was estimated without them.
#pragma once

#include <span>

#include "runtime/policy/catalog/policies.h"
#include "study/search/choice.h"
#include "train/config/config.h"

namespace weft::study {

/// A step of p stages, from the whole model on the ranks of one stage: each rank has about 1/p of its work. For m
/// micro-batches and v chunks a rank:
///
///   step     1/p · (work of the longest stage / mean) · (1 + idle/m), of the best schedule
///   idle     (p − 1)/v micro-batches; (p − 1)/(3v) where gradients of weights, a third of the work, fill idle time
///
/// Messages between stages and collectives that they expose are left out. Of one stage the step stays as it is.
class StageEstimate {
 public:
  /// `schedules`: the policies that may order the stages.
  StageEstimate(const train::RunConfig& config, const Choice& choice, std::span<const policy::NamedPolicy> schedules);

  /// Whether a schedule can order these stages.
  bool possible() const { return factor_ > 0; }
  double step_ns(double whole_ns) const { return whole_ns * factor_; }
  /// A bound: the mean over ranks.
  double least_ns(double whole_ns) const { return whole_ns / stages_; }

 private:
  double stages_ = 1, factor_ = 1;
};

}  // namespace weft::study
