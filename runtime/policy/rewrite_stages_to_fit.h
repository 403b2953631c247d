// Computes layers of pipeline stages again where memory is short, for policies that search.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Each list is by class.
struct FittingStages {
  std::vector<std::vector<plan::Rewrite>> rewrites = {};         // all: the given ones, and these for memory's sake
  std::vector<std::vector<plan::Rewrite>> chosen = {};           // those for memory's sake alone
  std::vector<std::shared_ptr<const graph::Graph>> graphs = {};  // after all
  std::size_t priced = 0;                                        // number of choices that fit and were compared
};

/// Of the stages that are `short_of_memory`, the first quarter, half, three quarters or all of the layers are computed
/// again (plan::RecomputeLayers): a kept activation of an early layer takes memory for longest. The choice counts whose
/// list schedule by longest paths keeps every stage's limit and is the shortest; nullopt if none keeps them. `given`:
/// rewrites of each class, which come before, but for the packing of weights.
std::optional<FittingStages> find_fitting_stages(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                                 const std::vector<std::vector<plan::Rewrite>>& given,
                                                 const std::vector<bool>& short_of_memory,
                                                 const PolicyOptions& options);

}  // namespace weft::policy
