// Orders, as rank 0 broadcasts them: an accepted order is encoded to the same bytes; if it makes a plan, the checker
// finds the plan safe.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include "runtime/plan/checker.h"
#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/runtime/random_graph.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const std::shared_ptr<const graph::Graph> graph = testing::random_graph(3, {.tasks = 10, .tensors = 6});
  const auto bytes = std::as_bytes(std::span(data, size));
  plan::Order order;
  try {
    order = plan::decode_order(bytes, *graph, policy::reason_tables());
  } catch (const std::runtime_error&) {
    return 0;
  }
  const std::vector<std::byte> again = plan::encode(order);
  fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "an order with other bytes");
  plan::Plan plan;
  try {
    plan = plan::make_plan(graph, order, "fuzz");
  } catch (const std::logic_error&) {
    return 0;
  }
  const std::vector<plan::Violation> violations = plan::check_plan(plan);
  fuzz::require(violations.empty(), violations.empty() ? "" : "an unsafe plan: " + violations.front().message);
  return 0;
}
