// Two ranks of an open graph that meet twice, for tests of meetings and replays.
#pragma once

#include <string>

#include "graph/open_graph.h"

namespace weft::testing {

inline graph::OpenTask joined(const std::string& name, double begin, double ns, std::int64_t sequence = -1) {
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

inline graph::OpenTask computed(const std::string& name, double ns) {
  graph::OpenTask task;
  task.name = name;
  task.ns = ns;
  return task;
}

/// Rank 1 computes for longer before each of two collectives, and its clock shows 500 more.
inline graph::OpenGraph two_ranks() {
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

}  // namespace weft::testing
