// The scratch memory that a class's plan may take.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Bytes of the tensors that outlive a step: parameters, optimizer state, …
std::int64_t state_bytes(const graph::Graph& graph);

/// Bytes of scratch that a plan of the graph may take under the options; 0: any number.
std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
