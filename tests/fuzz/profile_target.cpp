// Profiles: an accepted profile is written as a profile that reads back equal, and its costs of any graph are valid
// times.
#include <cmath>

#include "runtime/cost/cost_model.h"
#include "runtime/cost/profile.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/runtime/random_graph.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const std::shared_ptr<const graph::Graph> graph = testing::random_graph(3, {.tasks = 6, .tensors = 4});
  static const auto otherwise =
      std::shared_ptr<const cost::CostModel>(&cost::default_cost_model(), [](const cost::CostModel*) {});
  cost::Profile profile;
  if (!fuzz::accepted([&] { profile = cost::parse_profile(fuzz::text_of(data, size), "profile.json"); })) return 0;
  const std::string text = cost::profile_json(profile);
  fuzz::require(cost::profile_json(cost::parse_profile(text, "written.json")) == text,
                "a profile that differs when it is read back");
  fuzz::require(profile.grid.ranks() >= 1, "ranks that can't be counted");
  const auto model = cost::profiled_costs(profile, otherwise);
  const cost::TaskCosts costs = model->costs(*graph);
  for (std::size_t i = 0; i < costs.ns.size(); ++i) {
    fuzz::require(std::isfinite(costs.ns[i]) && costs.ns[i] >= 0, "a cost that is no time");
    fuzz::require(costs.cpu_ns[i] >= 0 && costs.cpu_ns[i] <= costs.ns[i], "more of a core than a task's time");
  }
  return 0;
}
