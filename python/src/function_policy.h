// A Python function or object as a policy of this process.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "runtime/policy/catalog/policies.h"

namespace weft::python {

/// `policy`: the name of a built-in policy, a function of a Problem, or an object with a method order(problem) and
/// maybe rewrites(problem). Throws UserError for a name that doesn't exist, and TypeError for anything else. A Python
/// file is run in a process of its own, as by `weft --policy`.
policy::NamedPolicy policy_of(const pybind11::object& policy);

/// Throws again the exception of Python that ended the policy's last call, if there was one: it says more than a
/// refusal.
void raise_failure_of(const policy::NamedPolicy& policy);

}  // namespace weft::python
