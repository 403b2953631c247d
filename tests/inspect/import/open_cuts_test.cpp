// Recorded tasks cut where another one can begin before they are done.
#include "inspect/import/open_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "inspect/import/step_replay.h"

namespace weft::inspect {
namespace {

/// Operators a (100 long) and b after it on one thread; x begins 30 after a's begin, y 130, z 130 after b's.
graph::OpenGraph operators() {
  graph::OpenGraph graph;
  graph::OpenClass one;
  one.edges_from_accesses = false;
  one.streams = {{"thread"}, {"other"}};
  const auto add = [&](std::string name, std::int32_t stream, double begin, double ns) {
    graph::OpenTask task;
    task.name = std::move(name);
    task.stream = stream;
    task.ns = ns;
    task.begin_ns = begin;
    task.end_ns = begin + ns;
    one.tasks.push_back(std::move(task));
  };
  add("a", 0, 0, 100);
  add("x", 1, 30, 10);
  add("b", 0, 100, 50);
  add("y", 1, 130, 20);
  add("z", 1, 230, 5);
  one.edges = {{0, 1, graph::EdgeKind::issued_before, graph::EdgeSource::launch, 1, 30.0},
               {0, 2, graph::EdgeKind::completes_before, graph::EdgeSource::stream},
               {0, 3, graph::EdgeKind::issued_before, graph::EdgeSource::launch, 1, 130.0},
               {2, 4, graph::EdgeKind::issued_before, graph::EdgeSource::launch, 1, 130.0}};
  one.recorded_ns = 235;
  graph.classes = {one};
  graph::check(graph);
  return graph;
}

TEST(OpenCuts, LeaveEdgesFromEndsAlone) {
  graph::OpenGraph graph = operators();
  const double before = replay_steps(graph).at(0).length();
  cut_at_delays(graph.classes[0]);
  graph::check(graph);
  const auto& tasks = graph.classes[0].tasks;
  const auto ns = [&](const std::string& name) {
    const auto found = std::ranges::find(tasks, name, &graph::OpenTask::name);
    EXPECT_NE(found, tasks.end()) << name;
    return found->ns;
  };
  EXPECT_EQ(ns("a"), 30);
  EXPECT_EQ(ns("rest of a, 1"), 70);
  EXPECT_EQ(ns("way from a, 2"), 30);
  EXPECT_EQ(ns("b"), 50) << "nothing begins before it is done";
  EXPECT_EQ(ns("way from b, 1"), 80);
  for (const graph::OpenEdge& edge : graph.classes[0].edges) EXPECT_FALSE(edge.after_begin_ns);
  EXPECT_EQ(replay_steps(graph).at(0).length(), before);
  EXPECT_EQ(before, 235);
  const std::vector<double> begins = replay_steps(graph).at(0).begins;
  for (std::size_t i = 0; i < tasks.size(); ++i) EXPECT_EQ(begins[i], *tasks[i].begin_ns) << tasks[i].name;
}

TEST(OpenCuts, OfATaskTwiceAsLongMoveWhatFollows) {
  graph::OpenGraph graph = operators();
  cut_at_delays(graph.classes[0]);
  for (graph::OpenTask& task : graph.classes[0].tasks) {
    if (task.name == "a" || task.name == "rest of a, 1") task.ns = 2 * *task.ns;
  }
  EXPECT_EQ(replay_steps(graph).at(0).length(), 335);
}

TEST(OpenCuts, LeaveAStepWithoutDelaysAsItIs) {
  graph::OpenGraph graph = operators();
  graph.classes[0].edges.resize(1);
  graph.classes[0].edges[0].after_begin_ns.reset();
  cut_at_delays(graph.classes[0]);
  EXPECT_EQ(graph.classes[0].tasks.size(), 5U);
}

}  // namespace
}  // namespace weft::inspect
