// Policies in shared libraries, behind the C interface of runtime/policy/policy_abi.h.
#pragma once

#include <memory>
#include <string>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Loads the library at `path`; "parameters" go to it as they are. Throws UserError when it can't be loaded, has no
/// entry, or was compiled against another version. The policy's order() throws UserError, in words for the library's
/// author, when the library fails, throws, or answers with something that is no order of the graph.
std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters);

}  // namespace weft::policy
