// Tasks of several classes of an open graph that are one and the same.
#include "graph/open_meetings.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/graph/open_graph_sample.h"

namespace weft::graph {
namespace {

using testing::two_ranks;

TEST(OpenMeetings, IsByOrderWithinAGroup) {
  const OpenMeetings matched = find_meetings(two_ranks());
  ASSERT_EQ(matched.all.size(), 2U);
  EXPECT_EQ(matched.unmatched, 0);
  EXPECT_EQ(matched.all[1][1].task, 3U);
}

TEST(OpenMeetings, IsByNumbersWhereAllHaveThem) {
  OpenGraph graph = two_ranks();
  graph.classes[0].tasks[1].sequence = 7;
  graph.classes[0].tasks[3].sequence = 8;
  graph.classes[1].tasks[1].sequence = 8;
  graph.classes[1].tasks[3].sequence = 9;
  const OpenMeetings matched = find_meetings(graph);
  ASSERT_EQ(matched.all.size(), 1U);
  EXPECT_EQ(matched.all[0][0].task, 3U);
  EXPECT_EQ(matched.all[0][1].task, 1U);
  EXPECT_EQ(matched.unmatched, 2);
}

TEST(OpenMeetings, KeepsGroupsApart) {
  OpenGraph graph = two_ranks();
  graph.channels[0] = {"each alone", 2, {{0, 2}, {1, 3}}};
  EXPECT_TRUE(find_meetings(graph).all.empty());
  graph = two_ranks();
  graph.classes[1].tasks[1].operation = "all_gather";
  EXPECT_EQ(find_meetings(graph).all.size(), 1U);
  EXPECT_EQ(find_meetings(graph).unmatched, 2);
}

TEST(OpenMeetings, JoinsSendsWithTheirReceives) {
  OpenGraph graph = two_ranks();
  graph.channels = {{"stage", 2, {{4, 6}}}};
  graph.classes[0].ranks = {4};
  graph.classes[1].ranks = {6};
  const auto transfer = [&](std::size_t of, std::size_t task, OpenKind kind, std::int64_t peer) {
    graph.classes[of].tasks[task].kind = kind;
    graph.classes[of].tasks[task].peer = peer;
  };
  transfer(0, 1, OpenKind::send, 6), transfer(0, 3, OpenKind::receive, 6);
  transfer(1, 1, OpenKind::receive, 0), transfer(1, 3, OpenKind::send, 4);  // 0: a place in the group
  OpenMeetings matched = find_meetings(graph);
  EXPECT_EQ(matched.transfers, 2);
  ASSERT_EQ(matched.all.size(), 2U);
  EXPECT_EQ(matched.all[0][0].of_class, 0U);
  EXPECT_EQ(matched.all[0][1].task, 1U);
  EXPECT_EQ(matched.unmatched, 0);
  graph.classes[1].tasks[3].kind = OpenKind::receive;
  matched = find_meetings(graph);
  EXPECT_EQ(matched.transfers, 1);
  EXPECT_EQ(matched.unmatched, 2);
  graph.classes[1].tasks[3].peer = 9;  // without a trace
  EXPECT_EQ(find_meetings(graph).unmatched, 1);
}

TEST(OpenMeetings, OfClassesOfSeveralRanksAreByTheirGroups) {
  OpenGraph graph = two_ranks();
  graph.world = 4;
  graph.classes[0].ranks = {0, 1};
  graph.classes[1].ranks = {2, 3};
  graph.channels[0] = {"across", 2, {{0, 3}, {1, 2}}};
  EXPECT_EQ(find_meetings(graph).all.size(), 2U);
  graph.channels[0].groups = {{0, 1}, {2, 3}};
  EXPECT_TRUE(find_meetings(graph).all.empty());
  graph.channels[0].groups = {};  // each class has as many ranks as a group
  EXPECT_TRUE(find_meetings(graph).all.empty());
}

TEST(OpenMeetings, MessagesAreByTheNumberThatTheyShare) {
  OpenGraph graph = two_ranks();
  graph.classes[0].tasks[1].kind = OpenKind::receive;
  graph.classes[1].tasks[3].kind = OpenKind::send;
  graph.classes[0].tasks[1].message = graph.classes[1].tasks[3].message = 7;
  const OpenMeetings matched = find_meetings(graph);
  EXPECT_EQ(matched.transfers, 1);
  EXPECT_EQ(matched.all.back(), (std::vector<ClassTask>{{1, 3}, {0, 1}}));
}

TEST(OpenMeetings, InContraryOrdersAreDropped) {
  OpenMeetings meetings;
  meetings.all = {{{0, 1}, {1, 3}}, {{0, 3}, {1, 1}}};
  drop_impossible(two_ranks(), meetings);
  EXPECT_EQ(meetings.all, (std::vector<std::vector<ClassTask>>{{{0, 3}, {1, 1}}}));
}

}  // namespace
}  // namespace weft::graph
