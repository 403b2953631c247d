// One collective of several ranks: which tasks it is, how long it takes by itself, and how ranks wait for each other.
#include "inspect/import/collective_match.h"

#include <gtest/gtest.h>

#include <string>

#include "inspect/import/step_replay.h"

namespace weft::inspect {
namespace {

graph::OpenTask joined(const std::string& name, double begin, double ns, std::int64_t sequence = -1) {
  graph::OpenTask task;
  task.name = name;
  task.kind = graph::OpenKind::collective;
  task.operation = "all_reduce";
  task.channel = 0;
  task.sequence = sequence;
  task.ns = ns;
  task.begin_ns = begin;
  task.end_ns = begin + ns;
  return task;
}

graph::OpenTask computed(const std::string& name, double ns) {
  graph::OpenTask task;
  task.name = name;
  task.ns = ns;
  return task;
}

/// Rank 1 computes for longer before each of two collectives, and its clock shows 500 more.
graph::OpenGraph two_ranks() {
  graph::OpenGraph graph;
  graph.channels = {{"all", 2, {{0, 1}}}};
  graph.world = 2;
  graph.classes.resize(2);
  graph.classes[0].ranks = {0};
  graph.classes[1].ranks = {1};
  graph.classes[0].tasks = {computed("a", 100), joined("r0", 100, 250), computed("b", 50), joined("r1", 400, 100)};
  graph.classes[1].tasks = {computed("a", 300), joined("r0", 800, 50), computed("b", 90), joined("r1", 940, 60)};
  for (graph::OpenClass& step : graph.classes) {
    for (std::uint32_t i = 1; i < 4; ++i) step.edges.push_back({i - 1, i});
  }
  return graph;
}

TEST(CollectiveMatch, IsByOrderWithinAGroup) {
  graph::OpenGraph graph = two_ranks();
  const MatchedCollectives matched = match_collectives(graph);
  ASSERT_EQ(matched.meetings.size(), 2U);
  EXPECT_EQ(matched.unmatched, 0);
  EXPECT_EQ(matched.meetings[1][1].task, 3U);
  EXPECT_EQ(clock_offsets(graph, matched), (std::vector<double>{0, 500}));
  set_net_times(graph, matched);
  EXPECT_EQ(graph.classes[0].tasks[1].ns, 50);
  EXPECT_EQ(graph.classes[0].tasks[3].ns, 60);
}

TEST(CollectiveMatch, IsByNumbersWhereAllHaveThem) {
  graph::OpenGraph graph = two_ranks();
  graph.classes[0].tasks[1].sequence = 7;
  graph.classes[0].tasks[3].sequence = 8;
  graph.classes[1].tasks[1].sequence = 8;
  graph.classes[1].tasks[3].sequence = 9;
  const MatchedCollectives matched = match_collectives(graph);
  ASSERT_EQ(matched.meetings.size(), 1U);
  EXPECT_EQ(matched.meetings[0][0].task, 3U);
  EXPECT_EQ(matched.meetings[0][1].task, 1U);
  EXPECT_EQ(matched.unmatched, 2);
}

TEST(CollectiveMatch, KeepsGroupsApart) {
  graph::OpenGraph graph = two_ranks();
  graph.channels[0] = {"each alone", 2, {{0, 2}, {1, 3}}};
  EXPECT_TRUE(match_collectives(graph).meetings.empty());
  graph = two_ranks();
  graph.classes[1].tasks[1].operation = "all_gather";
  EXPECT_EQ(match_collectives(graph).meetings.size(), 1U);
  EXPECT_EQ(match_collectives(graph).unmatched, 2);
}

TEST(CollectiveMatch, JoinsSendsWithTheirReceives) {
  graph::OpenGraph graph = two_ranks();
  graph.channels = {{"stage", 2, {{4, 6}}}};
  graph.classes[0].ranks = {4};
  graph.classes[1].ranks = {6};
  const auto transfer = [&](std::size_t of, std::size_t task, graph::OpenKind kind, std::int64_t peer) {
    graph.classes[of].tasks[task].kind = kind;
    graph.classes[of].tasks[task].peer = peer;
  };
  transfer(0, 1, graph::OpenKind::send, 6), transfer(0, 3, graph::OpenKind::receive, 6);
  transfer(1, 1, graph::OpenKind::receive, 0), transfer(1, 3, graph::OpenKind::send, 4);  // 0: a place in the group
  MatchedCollectives matched = match_collectives(graph);
  EXPECT_EQ(matched.transfers, 2);
  ASSERT_EQ(matched.meetings.size(), 2U);
  EXPECT_EQ(matched.meetings[0][0].of_class, 0U);
  EXPECT_EQ(matched.meetings[0][1].task, 1U);
  EXPECT_EQ(matched.unmatched, 0);
  graph.classes[1].tasks[3].kind = graph::OpenKind::receive;
  matched = match_collectives(graph);
  EXPECT_EQ(matched.transfers, 1);
  EXPECT_EQ(matched.unmatched, 2);
  graph.classes[1].tasks[3].peer = 9;  // without a trace
  EXPECT_EQ(match_collectives(graph).unmatched, 1);
}

TEST(StepReplay, LetsRanksWaitForEachOther) {
  graph::OpenGraph graph = two_ranks();
  const MatchedCollectives matched = match_collectives(graph);
  set_net_times(graph, matched);
  const std::vector<ReplayedClass> played = replay_steps(graph, matched);
  // Both meet at 300, then at 300 + 50 + 90.
  EXPECT_EQ(played[0].length(), 500);
  EXPECT_EQ(played[1].length(), 500);
  EXPECT_EQ(played[0].path.waiting_for_ranks, 240);
  EXPECT_EQ(played[1].path.waiting_for_ranks, 0);
  EXPECT_EQ(played[1].path.computing, 390);
  EXPECT_EQ(played[1].path.communicating, 110);
  const std::vector<ReplayedClass> later = replay_steps(graph, matched, {200, 0});
  EXPECT_EQ(later[0].length(), 300);
  EXPECT_EQ(later[1].length(), 500);
}

TEST(StepReplay, GivesUpMeetingsInContraryOrders) {
  graph::OpenGraph graph = two_ranks();
  MatchedCollectives matched;
  matched.meetings = {{{0, 1}, {1, 3}}, {{0, 3}, {1, 1}}};
  const std::vector<ReplayedClass> played = replay_steps(graph, matched);
  EXPECT_EQ(played[0].length(), 500);
  EXPECT_EQ(played[1].length(), 600) << "its first one still meets the other rank's second";
}

}  // namespace
}  // namespace weft::inspect
