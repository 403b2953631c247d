#include "runtime/policy/rewrite_stages_to_fit.h"

#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {
namespace {

constexpr std::size_t kPartsOfStage = 4;  // of a stage's layers

/// The first `part` of four parts of the graph's layers, rounded up.
std::vector<std::int32_t> first_layers(const graph::Graph& graph, std::size_t part) {
  std::set<std::int32_t> layers;
  for (const graph::Task& task : graph.tasks()) {
    if (task.layer >= 0) layers.insert(task.layer);
  }
  std::vector<std::int32_t> first(layers.begin(), layers.end());
  first.resize((first.size() * part + kPartsOfStage - 1) / kPartsOfStage);
  return first;
}

LimitedOrders by_longest_paths(const LimitedLists& lists) {
  return lists.shortest(by_priority(upward_rank(lists.tasks())));
}

}  // namespace

std::optional<FittingStages> find_fitting_stages(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                                 const std::vector<std::vector<plan::Rewrite>>& given,
                                                 const std::vector<bool>& short_of_memory,
                                                 const PolicyOptions& options) {
  std::optional<FittingStages> best;
  double least = std::numeric_limits<double>::infinity();
  std::size_t priced = 0;
  for (std::size_t part = 1; part <= kPartsOfStage; ++part) {
    FittingStages tried{.rewrites = given, .chosen = std::vector<std::vector<plan::Rewrite>>(classes.size())};
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (short_of_memory[k]) {
        std::vector<plan::Rewrite>& all = tried.rewrites[k];
        tried.chosen[k] = {plan::RecomputeLayers{first_layers(*classes[k], part)}};
        all.insert(all.end() - (plan::packs_weights(all) ? 1 : 0), tried.chosen[k].front());
      }
      tried.graphs.push_back(plan::rewrite(classes[k], tried.rewrites[k], options.weight_layouts));
    }
    const LimitedOrders found = by_longest_paths(LimitedLists(tried.graphs, options));
    if (!found.fits()) continue;
    ++priced;
    if (found.makespan >= least) continue;
    least = found.makespan;
    best = std::move(tried);
  }
  if (best) best->priced = priced;
  return best;
}

}  // namespace weft::policy
