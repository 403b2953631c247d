// The bandwidth of collectives and the shares of a step's time, counted by hand.
#include "inspect/report/report_tables.h"

#include <gtest/gtest.h>

#include "runtime/cost/cost_model.h"

namespace weft::inspect {
namespace {

using graph::KindClass;

///   compute0  gemm [0,40)    elementwise [50,70)
///   compute1       gemm [30,60)
///   data      all-reduce [20,90), of which [70,90) is exposed; nothing in [90,100)
plan::Recording shares_sample() {
  plan::Recording out;
  out.streams = {{"compute0", true}, {"compute1", true}, {"data", false}};
  out.tasks = {{.name = "a", .style = KindClass::gemm, .stream = 0},
               {.name = "b", .style = KindClass::elementwise, .stream = 0},
               {.name = "c", .style = KindClass::gemm, .stream = 1},
               {.name = "r", .style = KindClass::all_reduce, .stream = 2, .channel = "data"}};
  out.ranks = {{0, {{1, 1000, 1100, {{1000, 1040}, {1050, 1070}, {1030, 1060}, {1020, 1090}}}}}};
  return out;
}

TEST(StepShares, AddUpToTheStep) {
  const plan::Recording recording = shares_sample();
  const StepShares shares = step_shares(recording, recording.ranks[0].steps[0]);
  ASSERT_EQ(shares.kinds.size(), 3U);
  EXPECT_EQ(shares.kinds[0].kind, KindClass::gemm);
  EXPECT_EQ(shares.kinds[0].tasks, 2);
  EXPECT_EQ(shares.kinds[0].busy, 70);
  EXPECT_EQ(shares.kinds[0].share_ns, 55);  // [0,50), and half of [50,60)
  EXPECT_EQ(shares.kinds[1].kind, KindClass::elementwise);
  EXPECT_EQ(shares.kinds[1].share_ns, 15);
  EXPECT_EQ(shares.kinds[2].kind, KindClass::all_reduce);
  EXPECT_EQ(shares.kinds[2].busy, 70);
  EXPECT_EQ(shares.kinds[2].share_ns, 20);
  EXPECT_EQ(shares.idle_ns, 10);
  EXPECT_EQ(shares.step_ns, 100);
}

TEST(StepShares, TimesOutsideOfTheStepDontCount) {
  plan::Recording recording = shares_sample();
  recording.ranks[0].steps[0].begin = 1030;
  recording.ranks[0].steps[0].end = 1080;
  const StepShares shares = step_shares(recording, recording.ranks[0].steps[0]);
  double sum = shares.idle_ns;
  for (const KindShare& kind : shares.kinds) sum += kind.share_ns;
  EXPECT_EQ(sum, 50);
  EXPECT_EQ(shares.kinds[2].share_ns, 10);
}

TEST(StepShares, TheTableHasARowForEachKind) {
  const ReportTable table = shares_table(shares_sample());
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[0].back().text, "55.0");
  EXPECT_EQ(table.rows[3].back().text, "10.0");
  EXPECT_NE(table.picture.find("flex-grow:55.0"), std::string::npos) << table.picture;
}

plan::RecordedTask collective(const char* name, const char* axis, double bytes) {
  return {.name = name, .kind = "all_reduce", .stream = 1, .network_bytes = bytes, .channel = axis, .group_size = 4};
}

/// On x two collectives that run beside each other for 30 of 50 ns, and a small one; on data one.
plan::Recording channels_sample() {
  plan::Recording out;
  out.streams = {{"compute0", true}, {"x", false}};
  out.tasks = {{.name = "a"},
               collective("r", "x", 4000),
               collective("s", "x", 3000),
               collective("t", "x", 10),
               collective("u", "data", 500)};
  out.ranks = {{0, {{1, 0, 200, {{0, 100}, {10, 50}, {20, 60}, {100, 150}, {150, 160}}}}}};
  return out;
}

TEST(Bandwidth, OfAllAndOfTheLargest) {
  const std::vector<AxisBandwidth> axes = bandwidths(channels_sample());
  ASSERT_EQ(axes.size(), 2U);
  EXPECT_EQ(axes[0].axis, "data");
  EXPECT_DOUBLE_EQ(axes[0].achieved, 500 / 10e-9);
  EXPECT_EQ(axes[1].axis, "x");
  EXPECT_EQ(axes[1].ranks, 4);
  EXPECT_EQ(axes[1].collectives, 3);
  EXPECT_EQ(axes[1].bytes, 7010);
  EXPECT_EQ(axes[1].busy_ns, 100);  // [10,60) and [100,150)
  EXPECT_DOUBLE_EQ(axes[1].achieved, 7010 / 100e-9);
  EXPECT_DOUBLE_EQ(axes[1].largest, 4000 / 40e-9);  // of 75 and 100 GB/s
}

TEST(Bandwidth, TheLinksHeadNamesTheMachine) {
  ReportTable table = bandwidth_table(channels_sample(), {});
  EXPECT_EQ(table.heads.size(), 7U);
  table = bandwidth_table(channels_sample(), {.machine = "my cluster", .bandwidth = {{"x", 140.2e9}}});
  ASSERT_EQ(table.heads.size(), 9U);
  EXPECT_NE(table.heads[7].find("model of my cluster"), std::string::npos);
  EXPECT_EQ(table.rows[0][8].text, "-");  // data has no link here
  EXPECT_EQ(table.rows[1][7].text, "140");
  EXPECT_EQ(table.rows[1][8].text, "50");
}

TEST(Bandwidth, LinksAreTheLinksOfGroups) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::View x = graph::whole(builder, builder.add_tensor({"x", DType::f32, {4}, graph::Role::parameter}));
  builder.add_task({"r", graph::AllReduce{graph::Channel::data, 4, 4}, {graph::read_write(x)}});
  builder.add_task({"w", graph::AllReduce{graph::Channel::world, 4, 4}, {graph::read_write(x)}});
  const graph::Graph graph = std::move(builder).build();
  const cost::Machine machine;
  graph::Grid grid;
  grid.data = 4;
  const ReportLinks links = links_of(graph, machine, grid);
  ASSERT_EQ(links.bandwidth.size(), 2U);
  EXPECT_EQ(links.bandwidth.at("data"),
            cost::group_bandwidth(machine, cost::group_span(machine, grid, graph::Channel::data)));
  EXPECT_EQ(links.machine, machine.name);
  EXPECT_TRUE(links_of(graph, machine, {}).bandwidth.empty());  // alone nobody sends
}

}  // namespace
}  // namespace weft::inspect
