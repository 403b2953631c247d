// Two orders of the same tasks: the moved tasks, and the newly hidden ones.
#include "inspect/report/policy_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::inspect {
namespace {

plan::RecordedTask task(const char* name, std::uint32_t stream, const char* axis = "") {
  return {.name = name, .kind = axis[0] == '\0' ? "gemm" : "all_reduce", .stream = stream, .channel = axis};
}

///   serial    a [0,10) r [10,40) b [40,60) s [60,70)
///   mine      a [0,10) b [10,30) with s [10,20) and r [20,50) beside and after it
ReportView serial() {
  ReportView view{.name = "serial", .recording = {.policy = "serial"}};
  view.recording.streams = {{"compute0", true}, {"x", false}};
  view.recording.tasks = {task("a", 0), task("r", 1, "x"), task("b", 0), task("s", 1, "x")};
  view.recording.ranks = {{0, {{1, 100, 170, {{100, 110}, {110, 140}, {140, 160}, {160, 170}}}}}};
  return view;
}

ReportView mine() {
  ReportView view{.name = "mine", .recording = {.policy = "mine"}};
  view.recording.streams = {{"compute0", true}, {"x", false}};
  view.recording.tasks = {task("a", 0), task("b", 0), task("s", 1, "x"), task("r", 1, "x"), task("new", 0)};
  view.recording.ranks = {{0, {{1, 0, 50, {{0, 10}, {10, 30}, {10, 20}, {20, 50}, {30, 30}}}}}};
  return view;
}

TEST(PolicyDifference, SumsTheGainByCollective) {
  const PolicyDifference difference = policy_difference(serial().recording, mine().recording);
  EXPECT_EQ(difference.step_a, 70);
  EXPECT_EQ(difference.step_b, 50);
  ASSERT_EQ(difference.collectives.size(), 1U);
  EXPECT_EQ(difference.collectives[0].axis, "x");
  EXPECT_EQ(difference.collectives[0].exposed_a, 40);
  EXPECT_EQ(difference.collectives[0].exposed_b, 20);
  EXPECT_EQ(difference.collectives[0].gain(), 20);
  EXPECT_EQ(difference.only_a, 0U);
  EXPECT_EQ(difference.only_b, 1U);
}

TEST(PolicyDifference, OneTableShowsTheGainsOfAllPolicies) {
  std::vector<ReportView> views = {serial(), mine(), serial()};
  views[1].recording.tasks[2].kind = "reduce_scatter";  // serial has none
  std::vector<PolicyDifference> differences;
  for (std::size_t i = 1; i < 3; ++i) {
    differences.push_back(policy_difference(views[0].recording, views[i].recording));
  }
  const ReportTable table = gain_table(views, differences);
  ASSERT_EQ(table.heads.size(), 7U);
  ASSERT_EQ(table.rows.size(), 3U);
  const auto texts = [&](std::size_t row) {
    std::vector<std::string> out;
    for (const ReportCell& cell : table.rows[row]) out.push_back(cell.text);
    return out;
  };
  EXPECT_EQ(texts(1)[1], "reduce_scatter");
  for (std::size_t row = 0; row < 3; ++row) EXPECT_EQ(table.rows[row].size(), 7U);
  EXPECT_EQ(differences[0].collectives[0].gain(), 20);
  EXPECT_EQ(differences[1].collectives[0].gain(), 0);
}

TEST(PolicyDifference, NamesWhatMoved) {
  const PolicyDifference difference = policy_difference(serial().recording, mine().recording);
  ASSERT_EQ(difference.moves.size(), 1U);  // one of r and s explains the new order of both
  const PolicyMove& move = difference.moves[0];
  const ReportView b = mine();
  const std::string name = b.recording.tasks[move.in_b].name;
  EXPECT_EQ(serial().recording.tasks[move.in_a].name, name);
  EXPECT_EQ(moved_in(serial().recording, b.recording), std::vector<std::uint32_t>{move.in_b});
  EXPECT_TRUE(moved_in(b.recording, b.recording).empty());
  EXPECT_EQ(move.gain(), 10);  // of either: r is exposed for 30 and then 20 ns, s for 10 and then 0
  EXPECT_EQ(move.begin_b, name == "r" ? 20 : 10);
  const ReportTable table = moves_table(serial(), b, difference);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0][0].task, name);
  EXPECT_EQ(table.view, "mine");
}

// The same order in which a computation no longer waits for a collective.
TEST(PolicyDifference, AWaitThatIsGoneIsTheCollectivesMove) {
  ReportView blocking = serial(), free = serial();
  blocking.recording.edges = {{0, 1}, {1, 2, graph::EdgeKind::completes_before, graph::EdgeReason::policy}};
  free.recording.edges = {{0, 1}};
  free.recording.ranks[0].steps[0] = {1, 0, 40, {{0, 10}, {10, 40}, {10, 30}, {40, 40}}};
  EXPECT_EQ(moved_in(blocking.recording, free.recording), std::vector<std::uint32_t>{1});
  const PolicyDifference difference = policy_difference(blocking.recording, free.recording);
  ASSERT_EQ(difference.moves.size(), 1U);
  EXPECT_EQ(difference.moves[0].in_b, 1U);
  EXPECT_EQ(difference.moves[0].gain(), 20);
  EXPECT_NE(difference.moves[0].change.find("b "), std::string::npos);
  EXPECT_EQ(moved_in(free.recording, blocking.recording), std::vector<std::uint32_t>{1});
}

TEST(PolicyDifference, ThePageMarksWhatMoved) {
  ReportPage page;
  page.views = {serial(), mine()};
  const nlohmann::json data = nlohmann::json::parse(report_data(page));
  EXPECT_TRUE(data.at("views").at(0).at("moved").empty());
  EXPECT_EQ(data.at("views").at(1).at("moved").size(), 1U);
}

}  // namespace
}  // namespace weft::inspect
