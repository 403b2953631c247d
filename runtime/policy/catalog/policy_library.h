// Policies in shared libraries, through the C interface of runtime/policy/policy_abi.h.
#pragma once

#include <memory>
#include <string>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// Loads the library at `path`; passes `parameters` to it unchanged. Throws UserError when it can't be loaded, has no
/// entry, or was compiled for another version. The policy's order() throws UserError, with a message for the
/// library's author, when the library fails, throws, or returns an invalid order.
std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters);

}  // namespace weft::policy
