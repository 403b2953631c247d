// Policy `recorded`: opaque tasks on the streams and in the order in which they ran.
#pragma once

#include <string>
#include <vector>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Each recorded stream with computations is a compute stream. Tasks begin in the order of their recorded begins, where
/// edges allow it; a task without one begins with the task before it in the graph. Where tasks of one recorded stream
/// are on several streams of the plan, they keep their order by edges. What several classes start together begins in an
/// order that all of them can keep.
class RecordedPolicy final : public Policy {
 public:
  static constexpr plan::ReasonText kTexts[] = {{"as recorded"}};
  static constexpr plan::ReasonTable kReasons{"recorded", kTexts};

  std::string name() const override { return "recorded"; }
  bool may_be_reordered() const override { return false; }
  /// Throws UserError if no task of a class has a recorded stream or begin, or the options have fewer compute streams.
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
};

/// Whether tasks of the graph have recorded begins, so that `recorded` tells what happened.
bool has_recorded_times(const graph::Graph& graph);

/// Number of recorded streams with computations, at least 1.
int recorded_compute_streams(const graph::Graph& graph);

}  // namespace weft::policy
