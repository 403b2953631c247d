// The list of policies: the names that --policy takes, and what each makes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/reason.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/trusted_libraries.h"

namespace weft::policy {

/// The names that `--policy` takes.
std::vector<std::string> policy_names();
/// Of these, the policies whose scope isn't `pipelines`, or `one_class`.
std::vector<std::string> graph_policy_names();
std::vector<std::string> pipeline_policy_names();

/// Whether a policy, named with or without parameters, simulates many orders of the step: anneal, portfolio, exact.
bool searches(std::string_view name);

/// The tables of the reasons that policies of this list give. Others give texts.
plan::ReasonTables reason_tables();

/// The policy of a name, with parameters after a colon: "axonn:oar=off". "recorded" repeats how opaque tasks ran,
/// "file:PATH" replays a plan file, "PATH.so:parameters" asks a shared library
/// (runtime/policy/library/policy_library.h), "PATH.py:NAME" a function or class in Python
/// (runtime/policy/python/python_policy.h); both must be in `libraries`. Throws UserError naming the nearest policy or
/// parameter, or the flag that loads a library.
std::unique_ptr<Policy> make_policy(std::string_view name, const TrustedLibraries& libraries = {});

/// The policy used if none is named: `program` without parameters.
std::unique_ptr<Policy> default_policy();

/// A policy and the text that named it.
struct NamedPolicy {
  std::string name;  // as passed to make_policy(): "axonn:oar=off"
  std::shared_ptr<const Policy> policy;

  const Policy& operator*() const { return *policy; }
  const Policy* operator->() const { return policy.get(); }
};

/// Throws the exceptions of make_policy().
NamedPolicy named_policy(std::string name, const TrustedLibraries& libraries = {});

}  // namespace weft::policy
