// Libraries of version 1 of the interface, which get one graph without tensors.
#pragma once

#include <string>

#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// Throws the exceptions of refuse_library() if the entry isn't one of version 1.
void check_version_1(const std::string& path, const weft_policy* entry);

/// Asks the library for an order. Throws the exceptions of refuse_library().
plan::Order ask_version_1(const std::string& path, const weft_policy& entry, const std::string& parameters,
                          const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
