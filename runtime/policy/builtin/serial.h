// Policy `serial`: program order, one task at a time on all streams. The baseline of every measure of overlap.
#pragma once

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Nothing ever runs beside a collective: each task waits for the one before it in program order, and a step's first
/// task for the last one of the step before. Always uses one compute stream, as a second could never be busy at the
/// same time.
class SerialPolicy final : public Policy {
 public:
  std::string name() const override { return "serial"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;
};

}  // namespace weft::policy
