// Policy `program`: program order on each stream, collectives issued in place without blocking.
#pragma once

#include "runtime/policy.h"

namespace weft {

/// A collective runs behind whatever follows it in program order until a task needs its result: waits stand at data
/// edges only. With two or more compute streams the gradients of weights leave compute0 for the others, so that the
/// chain of input gradients, which feeds the next collective, isn't held up; all contributions to one gradient stay
/// on one stream.
class ProgramPolicy final : public Policy {
 public:
  std::string name() const override { return "program"; }
  Order order(const Graph& graph, const PolicyOptions& options) const override;
};

}  // namespace weft
