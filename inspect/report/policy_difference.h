// Two policies' steps of one graph: which tasks moved, and what that gained by collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inspect/report/report_page.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// By task, in nanoseconds: how long it communicates while nothing computes; 0 for computations.
std::vector<std::int64_t> exposed_times(const plan::Recording& recording, const plan::RecordedStep& step);

/// Collectives of one kind on one axis. Nanoseconds of a step.
struct CollectiveGain {
  std::string axis = {}, kind = {};
  std::int64_t exposed_a = 0, exposed_b = 0;
  std::int64_t gain() const { return exposed_a - exposed_b; }
};

/// A task on another stream, at another place among its stream's tasks, or with other waits that a policy asks for.
/// Times count from the step's begin.
struct PolicyMove {
  std::uint32_t in_a = 0, in_b = 0;
  std::string change = {};  // "now after b", "b no longer waits for it"
  std::int64_t begin_a = 0, begin_b = 0, exposed_a = 0, exposed_b = 0;
  std::int64_t gain() const { return exposed_a - exposed_b; }
};

/// Of the first rank's last step of both.
struct PolicyDifference {
  std::int64_t step_a = 0, step_b = 0;           // lengths
  std::vector<CollectiveGain> collectives = {};  // by axis and kind
  std::vector<PolicyMove> moves = {};            // by falling gain, then as b orders them
  std::size_t only_a = 0, only_b = 0;            // tasks that one of them alone has
};

PolicyDifference policy_difference(const plan::Recording& a, const plan::Recording& b);

/// The tasks of b that moved, by rising index.
std::vector<std::uint32_t> moved_in(const plan::Recording& a, const plan::Recording& b);

/// The gain of each other view over the first, by collective; `differences` are in the order of the other views.
ReportTable gain_table(std::span<const ReportView> views, std::span<const PolicyDifference> differences);

/// The tasks that moved from a to b; cells select tasks of b.
ReportTable moves_table(const ReportView& a, const ReportView& b, const PolicyDifference& difference);

}  // namespace weft::inspect
