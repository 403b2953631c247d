// Policy `program`: program order on each stream, collectives issued in place without blocking.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// A collective runs behind whatever follows it in program order until a task needs its result: waits stand at data
/// edges only. With two or more compute streams the gradients of weights leave compute0 for the others, so that the
/// chain of input gradients, which feeds the next collective, isn't held up; all contributions to one gradient stay
/// on one stream.
/// `depth`: a weight is gathered over z no earlier than so many layers ahead of the layer that uses it, in the order in
/// which layers are visited: behind the first computation of that layer's visit. What stands outside of the layers
/// (embedding, head) counts as a layer. Without one, as early as its place in the program and its queue allow.
class ProgramPolicy final : public Policy {
 public:
  ProgramPolicy() = default;
  explicit ProgramPolicy(std::int64_t depth) : depth_(depth) {}
  explicit ProgramPolicy(PolicyParameters& parameters);
  std::string name() const override { return "program"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  std::int64_t depth_ = -1;  // layers; -1: no limit
};

}  // namespace weft::policy
