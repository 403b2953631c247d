// The shares of a step's time, counted by hand.
#include "inspect/report/step_shares.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::inspect
