// The policies with short searches, for tests of what holds under every policy: their plans are like the plans of long
// searches.
#pragma once

#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"

namespace weft::testing {

/// The names, with few moves and nodes for the policies that search.
inline std::vector<std::string> with_short_searches(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (name == "anneal") name += ":iterations=12";
    if (name == "portfolio") name += ":budget=10";
    if (name == "exact") name += ":budget=10,nodes=1000";
    if (name == "pipe-search") name += ":moves=30";
  }
  return names;
}

/// Every policy that orders a graph.
inline std::vector<std::string> quick_graph_policies() {
  return with_short_searches(policy::graph_policy_names());
}

}  // namespace weft::testing
