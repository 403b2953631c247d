// Ranks played again: how long a shared collective takes by itself, and how ranks wait for each other.
#include "inspect/import/step_replay.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/graph/open_graph_sample.h"

namespace weft::inspect {
namespace {

using testing::two_ranks;

TEST(StepReplay, LetsRanksWaitForEachOther) {
  graph::OpenGraph graph = two_ranks();
  const graph::OpenMeetings matched = graph::find_meetings(graph);
  EXPECT_EQ(clock_offsets(graph, matched), (std::vector<double>{0, 500}));
  set_net_times(graph, matched, clock_offsets(graph, matched));
  EXPECT_EQ(graph.classes[0].tasks[1].ns, 50);
  EXPECT_EQ(graph.classes[0].tasks[3].ns, 60);
  const std::vector<ReplayedClass> played = replay_steps(graph, matched);
  // Both meet at 300, then at 300 + 50 + 90.
  EXPECT_EQ(played[0].length(), 500);
  EXPECT_EQ(played[1].length(), 500);
  EXPECT_EQ(played[0].path.waiting_for_ranks, 240);
  EXPECT_EQ(played[1].path.waiting_for_ranks, 0);
  EXPECT_EQ(played[1].path.computing, 390);
  EXPECT_EQ(played[1].path.communicating, 110);
  EXPECT_EQ(played[0].path.waiting_by_class, (std::vector<double>{0, 240})) << "all of it for the second rank";
}

/// A collective of each pair of ranks, by begin and end on the ranks' own clocks.
graph::OpenGraph met_in_pairs(const std::vector<std::vector<std::pair<double, double>>>& times) {
  graph::OpenGraph graph;
  graph.world = std::ssize(times);
  graph.classes.resize(times.size());
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    graph.classes[rank].ranks = {static_cast<std::int64_t>(rank)};
    for (const auto& [begin, end] : times[rank]) {
      graph::OpenTask& task = graph.classes[rank].tasks.emplace_back();
      task.kind = graph::OpenKind::collective;
      task.begin_ns = begin;
      task.end_ns = end;
      task.ns = end - begin;
    }
  }
  return graph;
}

TEST(StepReplay, KnowsClocksOfRanksThatMeetOverOthers) {
  const graph::OpenGraph graph = met_in_pairs({{{0, 100}}, {{1050, 1100}, {1200, 1300}}, {{250, 300}}, {{7, 9}}});
  graph::OpenMeetings meetings;
  meetings.all = {{{1, 0}, {0, 0}}, {{1, 1}, {2, 0}}};
  EXPECT_EQ(clock_offsets(graph, meetings), (std::vector<double>{0, 1000, 0, 0}));
}

TEST(StepReplay, TakesACollectiveFromTheLastBeginToTheMeanEnd) {
  // Rank 0 has what it needs 10 after rank 1 came, whose thread gets a core late. Alone, the shortest would be 50.
  graph::OpenGraph graph = met_in_pairs({{{0, 50}, {100, 200}}, {{540, 600}, {600, 700}}});
  graph::OpenMeetings meetings;
  meetings.all = {{{0, 0}, {1, 0}}, {{0, 1}, {1, 1}}};
  set_net_times(graph, meetings, {0, 500});
  EXPECT_EQ(graph.classes[0].tasks[0].ns, 35);
  EXPECT_EQ(graph.classes[1].tasks[0].ns, 35);
  EXPECT_EQ(graph.classes[1].tasks[1].ns, 100);
  // A send that was done before its receive began, and a task without times.
  graph = met_in_pairs({{{0, 5}, {100, 200}}, {{20, 60}, {100, 130}}});
  graph.classes[1].tasks[1].end_ns.reset();
  set_net_times(graph, meetings, {0, 0});
  EXPECT_EQ(graph.classes[0].tasks[0].ns, 20);
  EXPECT_EQ(graph.classes[0].tasks[1].ns, 30) << "the shortest";
}

TEST(StepReplay, GivesUpMeetingsInContraryOrders) {
  graph::OpenGraph graph = two_ranks();
  graph::OpenMeetings matched;
  matched.all = {{{0, 1}, {1, 3}}, {{0, 3}, {1, 1}}};
  const std::vector<ReplayedClass> played = replay_steps(graph, matched);
  EXPECT_EQ(played[0].length(), 500);
  EXPECT_EQ(played[1].length(), 650) << "its first one still meets the other rank's second, and takes its time";
}

}  // namespace
}  // namespace weft::inspect
