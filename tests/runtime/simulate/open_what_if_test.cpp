// Recorded steps with other times: without the host, without some kernels, on another machine, in larger buckets.
#include "runtime/simulate/open_what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/simulate/open_problem.h"
#include "tests/graph/open_graph_sample.h"

namespace weft::simulate {
namespace {

using graph::EdgeSource;
using graph::OpenKind;

/// Four gradients of 10 us each, one after the other; each is summed by a collective of 5 us and 1 us for each kB, and
/// an update waits for all sums. A host launches the first gradient and the update.
graph::OpenGraph gradients() {
  graph::OpenGraph graph;
  graph.world = 2;
  graph.channels = {{"dp", 2, {{0, 1}}}};
  graph::OpenClass one;
  one.ranks = {0};
  one.edges_from_accesses = false;
  one.streams = {{"thread", true}, {"compute"}, {"sums", false, 0}};
  const auto add = [&](std::string name, OpenKind kind, std::string operation, std::int32_t stream, double ns) {
    graph::OpenTask task;
    task.name = std::move(name);
    task.kind = kind;
    task.operation = std::move(operation);
    task.stream = stream;
    task.ns = ns;
    one.tasks.push_back(task);
    return static_cast<std::uint32_t>(one.tasks.size()) - 1;
  };
  const std::uint32_t host = add("launch of grad#0#0", OpenKind::host, "launch", 0, 3'000);
  std::uint32_t before = host;
  std::vector<std::uint32_t> sums;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t grad = add("grad#" + std::to_string(i), OpenKind::compute, "gemm", 1, 10'000);
    one.edges.push_back(
        {before, grad, graph::EdgeKind::completes_before, i == 0 ? EdgeSource::launch : EdgeSource::stream});
    const double kilobytes = 2 + i;
    const std::uint32_t sum =
        add("sum#" + std::to_string(i), OpenKind::collective, "all_reduce", 2, 5'000 + 1'000 * kilobytes);
    one.tasks[sum].channel = 0;
    one.tasks[sum].network_bytes = 1'000 * kilobytes;
    one.edges.push_back({grad, sum});
    if (!sums.empty()) one.edges.push_back({sums.back(), sum, graph::EdgeKind::completes_before, EdgeSource::stream});
    sums.push_back(sum);
    before = grad;
  }
  const std::uint32_t update = add("adam#0", OpenKind::compute, "adam", 1, 4'000);
  for (const std::uint32_t sum : sums) one.edges.push_back({sum, update});
  graph.classes = {one};
  graph::check(graph);
  return graph;
}

double step_of(const graph::OpenGraph& graph) {
  return report_plan(open_problem(graph, {}), policy::named_policy("recorded")).step_ns();
}

double ns_of(const graph::OpenGraph& graph, const std::string& name) {
  return *std::ranges::find(graph.classes[0].tasks, name, &graph::OpenTask::name)->ns;
}

TEST(OpenWhatIf, TakesTheHostAway) {
  graph::OpenGraph graph = gradients();
  EXPECT_EQ(step_of(graph), 3'000 + 40'000 + 10'000 + 4'000);
  take_host_away(graph);
  EXPECT_EQ(step_of(graph), 40'000 + 10'000 + 4'000);
  graph.classes[0].tasks[0].operation = graph::kLaterStart;
  graph.classes[0].tasks[0].ns = 7'000;
  take_host_away(graph);
  EXPECT_EQ(step_of(graph), 7'000 + 40'000 + 10'000 + 4'000) << "a rank that began later still does";
}

TEST(OpenWhatIf, TakesTasksAwayWithTheirLaunches) {
  graph::OpenGraph graph = gradients();
  take_tasks_away(graph, "gemm");
  EXPECT_EQ(ns_of(graph, "grad#3"), 0);
  EXPECT_EQ(ns_of(graph, "launch of grad#0#0"), 0);
  EXPECT_EQ(ns_of(graph, "sum#0"), 7'000);
  graph = gradients();
  take_tasks_away(graph, "grad#1");
  EXPECT_EQ(ns_of(graph, "grad#0"), 10'000);
  EXPECT_EQ(ns_of(graph, "launch of grad#0#0"), 3'000) << "it launches another one";
  graph = gradients();
  graph.classes[0].edges.push_back({0, 9, graph::EdgeKind::completes_before, EdgeSource::launch});
  take_tasks_away(graph, "gemm");
  EXPECT_EQ(ns_of(graph, "launch of grad#0#0"), 3'000) << "it launches the update, too";
}

TEST(OpenWhatIf, JoinsBuckets) {
  graph::OpenGraph graph = gradients();
  EXPECT_EQ(join_buckets(graph, 5'000), 2);
  graph::check(graph);
  EXPECT_EQ(ns_of(graph, "sum#0"), 0);
  EXPECT_EQ(ns_of(graph, "sum#1"), 5'000 + 2'000 + 3'000) << "one latency, and the bytes of both";
  EXPECT_EQ(ns_of(graph, "sum#3"), 5'000 + 4'000 + 5'000);
  EXPECT_EQ(step_of(graph), 3'000 + 40'000 + 14'000 + 4'000);
  graph = gradients();
  EXPECT_EQ(join_buckets(graph, 1e6), 3) << "all";
  EXPECT_EQ(ns_of(graph, "sum#3"), 5'000 + 14'000);
  graph = gradients();
  EXPECT_EQ(join_buckets(graph, 1'000), 0) << "each is as large already";
}

TEST(OpenWhatIf, ABucketEndsBeforeWorkThatNeedsIt) {
  graph::OpenGraph graph = gradients();
  graph.classes[0].edges.push_back({2, 5});  // the third gradient needs the first sum
  EXPECT_EQ(join_buckets(graph, 1e6), 3 - 1);
  graph::check(graph);
  EXPECT_EQ(ns_of(graph, "sum#1"), 5'000 + 5'000) << "the first bucket";
}

TEST(OpenWhatIf, MovesToAnotherMachine) {
  cost::Machine from, to;
  to.flops_bf16 = 2 * from.flops_bf16;
  to.memory_bandwidth = 4 * from.memory_bandwidth;
  to.node.bandwidth = from.node.bandwidth / 2;
  to.network.bandwidth = from.network.bandwidth / 2;
  graph::OpenGraph graph = gradients();
  move_to_machine(graph, from, to, DType::bf16);
  EXPECT_DOUBLE_EQ(ns_of(graph, "grad#0"), 5'000);
  EXPECT_DOUBLE_EQ(ns_of(graph, "adam#0"), 1'000);
  EXPECT_DOUBLE_EQ(ns_of(graph, "sum#0"), 14'000);
  EXPECT_DOUBLE_EQ(ns_of(graph, "launch of grad#0#0"), 3'000) << "the host is as it was";
}

}  // namespace
}  // namespace weft::simulate
