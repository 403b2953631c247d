// Ranks played again: how long a shared collective takes by itself, and how ranks wait for each other.
#include "inspect/import/step_replay.h"

#include <gtest/gtest.h>

#include "tests/graph/open_graph_sample.h"

namespace weft::inspect {
namespace {

using testing::two_ranks;

TEST(StepReplay, LetsRanksWaitForEachOther) {
  graph::OpenGraph graph = two_ranks();
  const graph::OpenMeetings matched = graph::find_meetings(graph);
  EXPECT_EQ(clock_offsets(graph, matched), (std::vector<double>{0, 500}));
  set_net_times(graph, matched);
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
