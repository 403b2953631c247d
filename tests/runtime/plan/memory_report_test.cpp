#include "runtime/plan/memory_report.h"

#include <gtest/gtest.h>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

using testing::ToyGraph;

TEST(MemoryReport, StateInAllAndScratchAtItsPeak) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 100, graph::Role::parameter);
  const graph::View a = toy.tensor("a", 50, graph::Role::activation), b = toy.tensor("b", 70, graph::Role::activation);
  const graph::View c = toy.tensor("c", 60, graph::Role::activation), g = toy.tensor("g", 10, graph::Role::gradient);
  toy.compute("first", {graph::read(p), graph::write(a)});
  toy.compute("second", {graph::read(a), graph::write(b)});  // a and b live: 120
  toy.compute("third", {graph::read(b), graph::write(c)});   // b and c live: 130
  toy.compute("fourth", {graph::read(c), graph::write(g)});
  toy.compute("last", {graph::read(g), graph::read_write(p)});
  const auto graph = toy.build();
  const Plan plan = make_plan(graph, testing::order_of(*policy::make_policy("serial"), *graph), "serial");
  const MemoryReport report = memory_report(plan);
  EXPECT_EQ(report.of(graph::Role::parameter), 400);
  EXPECT_EQ(report.state, 400);
  EXPECT_EQ(report.of(graph::Role::activation), 4 * 130);
  EXPECT_EQ(report.of(graph::Role::gradient), 40);
  EXPECT_EQ(report.of(graph::Role::gathered), 0);
  EXPECT_EQ(report.arena, plan.scratch_bytes);
  EXPECT_EQ(report.total(), 400 + plan.scratch_bytes);
}

}  // namespace
}  // namespace weft::plan
