#include "runtime/plan/memory_report.h"

#include <gtest/gtest.h>

#include "runtime/policy/policy.h"
#include "tests/runtime/toy_graph.h"

namespace weft {
namespace {

using testing::ToyGraph;

TEST(MemoryReport, StateInAllAndScratchAtItsPeak) {
  ToyGraph toy;
  const View p = toy.tensor("p", 100, Role::parameter);
  const View a = toy.tensor("a", 50, Role::activation), b = toy.tensor("b", 70, Role::activation);
  const View c = toy.tensor("c", 60, Role::activation), g = toy.tensor("g", 10, Role::gradient);
  toy.compute("first", {read(p), write(a)});
  toy.compute("second", {read(a), write(b)});  // a and b live: 120
  toy.compute("third", {read(b), write(c)});   // b and c live: 130
  toy.compute("fourth", {read(c), write(g)});
  toy.compute("last", {read(g), read_write(p)});
  const auto graph = toy.build();
  const Plan plan = make_plan(graph, make_policy("serial")->order(*graph, {}), "serial");
  const MemoryReport report = memory_report(plan);
  EXPECT_EQ(report.of(Role::parameter), 400);
  EXPECT_EQ(report.state, 400);
  EXPECT_EQ(report.of(Role::activation), 4 * 130);
  EXPECT_EQ(report.of(Role::gradient), 40);
  EXPECT_EQ(report.of(Role::gathered), 0);
  EXPECT_EQ(report.arena, plan.scratch_bytes);
  EXPECT_EQ(report.total(), 400 + plan.scratch_bytes);
}

}  // namespace
}  // namespace weft
