// Plan files: an accepted file is written as a file that reads back equal, doesn't differ from itself, and gives an
// order of a graph or is refused.
#include <memory>

#include "runtime/plan/plan_difference.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/runtime/random_graph.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const std::shared_ptr<const graph::Graph> graph = testing::random_graph(3, {.tasks = 6, .tensors = 4});
  plan::PlanFile file;
  if (!fuzz::accepted([&] { file = plan::parse_plan_file(fuzz::text_of(data, size), "plan.json"); })) return 0;
  const plan::PlanFile again = plan::parse_plan_file(plan::to_json(file), "written.json");
  fuzz::require(again == file && plan::to_json(again) == plan::to_json(file),
                "a plan that differs when it is read back");
  fuzz::require(plan::describe(plan::difference_of(file, again)).empty(), "a plan that differs from itself");
  plan::Order order;
  if (!fuzz::accepted([&] { order = plan::order_of(file.front(), *graph, "plan.json", policy::reason_tables()); }))
    return 0;
  plan::make_plan(graph, order, "fuzz");  // its own checks find no error any more
  return 0;
}
