// Libraries of version 2 of the interface, which get tensors, channels and the simulator.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/library/library_call.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// Throws the exceptions of refuse_library() if the entry isn't one of version 2.
void check_version_2(const std::string& path, const weft2_policy* entry);

ForeignFunctions functions_of(const weft2_policy& entry);

/// Both ask the policy, and throw the exceptions of refuse_library() about the file at `path`. Without a function
/// rewrites() there are none.
std::vector<plan::Rewrite> ask_rewrites(const std::string& path, const ForeignFunctions& functions,
                                        const std::string& parameters, const graph::Graph& graph,
                                        const PolicyOptions& options);
plan::Order ask_version_2(const std::string& path, const ForeignFunctions& functions, const std::string& parameters,
                          const graph::Graph& graph, const PolicyOptions& options);

}  // namespace weft::policy
