// A plan's drawing shows what the graph alone can't: streams, the policy's reasons, added edges.
#include "inspect/drawing/draw.h"

#include <gtest/gtest.h>

#include "inspect/drawing/colors.h"
#include "tests/base/messages.h"
#include "tests/runtime/toy_graph.h"

namespace weft::inspect {
namespace {

// a and b don't depend on each other; b runs on the second stream, after an edge of the policy's own.
plan::Plan two_streams() {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), y = toy.tensor("y", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  toy.collective("r", graph::Channel::data, {graph::read_write(x)});
  const auto graph = toy.build();
  plan::Order order = testing::order_of(*graph, 2, {{"a", "compute0"}, {"b", "compute1"}, {"r", "data"}});
  order.added_edges.push_back({graph->find_task("a"), graph->find_task("b"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  return plan::make_plan(graph, order, "by-hand");
}

// The line that begins with `start`.
std::string line_of(const std::string& text, const std::string& start) {
  const std::size_t begin = text.find(start);
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(PlanDot, BordersAreStreamsAndTooltipsGiveReasons) {
  const plan::Plan plan = two_streams();
  const std::string dot = plan_dot(plan, "step.dot");
  EXPECT_NE(line_of(dot, "//").find("step.dot"), std::string::npos) << dot;
  for (std::size_t task = 0; task < 3; ++task) {
    const std::string node = line_of(dot, "t" + std::to_string(task) + " [");
    const std::size_t stream = plan.position[task].stream.index();
    EXPECT_TRUE(has_parts(node, {"color=\"" + std::string(stream_color(stream)) + "\"",
                                 plan.streams[stream].stream.name, "by-hand: as the test says"}));
  }
  EXPECT_TRUE(has_parts(line_of(dot, "t0 -> t1 "), {"dotted"}));  // the policy's own edge
}

}  // namespace
}  // namespace weft::inspect
