// What bounds a recorded step, and what would shorten it.
#include "inspect/import/step_verdict.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/messages.h"
#include "tests/graph/open_graph_sample.h"

namespace weft::inspect {
namespace {

using graph::OpenKind;

/// A host that launches kernels one after the other: each launch takes `host`, each kernel `device`.
graph::OpenGraph launched(double host, double device) {
  graph::OpenGraph graph;
  graph::OpenClass one;
  one.edges_from_accesses = false;
  one.streams = {{"thread", true}, {"stream"}};
  const auto add = [&](std::string name, OpenKind kind, std::int32_t stream, double begin, double ns) {
    graph::OpenTask task;
    task.name = std::move(name);
    task.kind = kind;
    task.operation = kind == OpenKind::host ? "launch" : "gemm";
    task.stream = stream;
    task.ns = ns;
    task.begin_ns = begin;
    task.end_ns = begin + ns;
    one.tasks.push_back(std::move(task));
    return static_cast<std::uint32_t>(one.tasks.size()) - 1;
  };
  double called = 0, free = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t launch = add("launch " + std::to_string(i), OpenKind::host, 0, called, host);
    called += host;
    free = std::max(free, called);
    const std::uint32_t kernel = add("gemm " + std::to_string(i), OpenKind::compute, 1, free, device);
    free += device;
    one.edges.push_back({launch, kernel});
    if (i == 0) continue;
    one.edges.push_back({launch - 2, launch});
    one.edges.push_back({kernel - 2, kernel});
  }
  one.recorded_ns = free;
  graph.classes = {one};
  graph::check(graph);
  return graph;
}

StepVerdict judged(const graph::OpenGraph& graph) {
  return judge_step(graph, recorded_lengths(graph));
}

TEST(StepVerdictOfReplay, SaysHostOnlyWhereTheStepIsShorterWithoutIt) {
  const StepVerdict by_host = judged(launched(1'000'000, 100'000));
  EXPECT_EQ(by_host.bound_by, "host");
  EXPECT_EQ(by_host.replayed_ns, 10'100'000);
  EXPECT_EQ(by_host.without_host_ns, 1'000'000);
  ASSERT_EQ(by_host.remedies.size(), 2U);
  EXPECT_EQ(by_host.remedies[0].flag, "--no-host");
  EXPECT_EQ(by_host.remedies[0].gain_ns, 9'100'000);
  EXPECT_EQ(by_host.remedies[1].gain_ns, 50'000) << "of the last kernel alone";
  EXPECT_TRUE(by_host.off.empty());
  const StepVerdict by_device = judged(launched(90'000, 1'000'000));
  EXPECT_EQ(by_device.bound_by, "computing");
  EXPECT_LT(by_device.host_share(), kHostBound);
  EXPECT_EQ(by_device.remedies[0].flag, "--scale 'gemm=0.5'");
  EXPECT_EQ(by_device.remedies[0].gain_ns, 5'000'000);
}

TEST(StepVerdictOfReplay, SaysWhoWaitsForWhom) {
  graph::OpenGraph graph = testing::two_ranks();
  const graph::OpenMeetings meetings = graph::find_meetings(graph);
  set_net_times(graph, meetings, clock_offsets(graph, meetings));
  const StepVerdict verdict = judged(graph);
  ASSERT_EQ(verdict.waits.size(), 1U);
  EXPECT_TRUE(has_parts(verdict.waits[0], {graph.classes[0].name, "0.000 ms for " + graph.classes[1].name}));
}

TEST(StepVerdictOfReplay, SaysWhatTheReplayLacks) {
  graph::OpenGraph graph = launched(1'000, 100'000);
  for (graph::OpenTask& task : graph.classes[0].tasks) {
    if (task.name < "gemm 4" || task.kind == OpenKind::host) continue;
    *task.begin_ns += 300'000;
    *task.end_ns += 300'000;
  }
  graph.classes[0].recorded_ns += 300'000;
  const std::string shorter = judged(graph).off;
  EXPECT_TRUE(has_parts(shorter, {"23.1 % shorter", "0.300 ms before gemm 4"})) << shorter;
  EXPECT_EQ(reason_far_off(graph, graph.classes[0].recorded_ns), "");
  graph = launched(1'000, 100'000);
  graph.classes[0].recorded_ns = 400'000;
  EXPECT_TRUE(has_parts(judged(graph).off, {"longer"}));
}

TEST(StepVerdictOfReplay, HasLinesOfAFactEach) {
  graph::OpenGraph graph = launched(1'000'000, 100'000);
  for (graph::OpenTask& task : graph.classes[0].tasks) {
    if (task.kind == OpenKind::compute) task.operation = std::string(500, 'x');
  }
  const std::vector<std::string> lines = lines_of(judged(graph));
  EXPECT_EQ(lines.size(), 3U);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 200U) << line;
}

}  // namespace
}  // namespace weft::inspect
