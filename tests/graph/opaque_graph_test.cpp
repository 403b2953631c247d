// Opaque tasks keep names, order, edges and memory of the open graph, and get queues of their own.
#include "graph/opaque_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "graph/grid.h"
#include "tests/graph/open_graph_sample.h"

namespace weft::graph {
namespace {

Channel queue_of(const Graph& graph, std::string_view task) {
  const Channel* channel = channel_of(graph.task(graph.find_task(task)).operation);
  return channel == nullptr ? Channel::world : *channel;
}

TEST(OpaqueGraph, KeepsTasksAndTheirOrder) {
  const OpenGraph open = testing::sample_open_graph();
  const Graph graph = opaque_graph(open, 0);
  ASSERT_EQ(graph.tasks().size(), open.classes[0].tasks.size());
  EXPECT_TRUE(graph.has_opaque_tasks());
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    EXPECT_EQ(graph.tasks()[i].name, open.classes[0].tasks[i].name);
  }
  const Task& product = graph.task(graph.find_task("up"));
  EXPECT_EQ(kind_name(product.operation), "gemm");
  EXPECT_EQ(kind_class(product.operation), KindClass::gemm);
  EXPECT_EQ(work_of(product.operation, 4).flops, 2e6);
  EXPECT_EQ(product.layer, 0);
  EXPECT_EQ(product.phase, Phase::backward);
  EXPECT_EQ(graph.tensor(graph.find_tensor("y")).bytes(), 1000);
  EXPECT_EQ(graph.tensor(graph.find_tensor("w")).role, Role::parameter);
}

TEST(OpaqueGraph, QueuesAreOfChannelsThreadsAndCopies) {
  const Graph graph = opaque_graph(testing::sample_open_graph(), 0);
  EXPECT_EQ(channel_of(graph.task(graph.find_task("up")).operation), nullptr);
  const Channel sum = queue_of(graph, "sum"), launch = queue_of(graph, "launch"), copy = queue_of(graph, "copy");
  EXPECT_TRUE(is_own(sum) && is_own(launch) && is_own(copy));
  EXPECT_EQ(graph.channel_name(sum), "tp");
  EXPECT_EQ(graph.channel_name(launch), "thread 1");
  EXPECT_EQ(graph.channel_info(sum)->group_size, 2);
  EXPECT_FALSE(graph.is_local(sum));
  EXPECT_TRUE(graph.is_local(launch) && graph.is_local(copy));
  EXPECT_TRUE(is_collective(graph.task(graph.find_task("sum")).operation));
  EXPECT_FALSE(is_collective(graph.task(graph.find_task("launch")).operation));
  EXPECT_EQ(graph.channel_count(), kAxisChannels + graph.channels().size());
  EXPECT_EQ(find_channel(channel_text(launch)), launch);
}

TEST(OpaqueGraph, EdgesAreGivenOrComeFromAccesses) {
  const Graph graph = opaque_graph(testing::sample_open_graph(), 0);
  const auto edge = [&](std::string_view from, std::string_view to) {
    for (const Edge& each : graph.in_edges(graph.find_task(to))) {
      if (each.from == graph.find_task(from) && each.distance == 0) return each;
    }
    ADD_FAILURE() << "no edge from " << from << " to " << to;
    return Edge{};
  };
  EXPECT_EQ(edge("launch", "up").reason, EdgeReason::given);
  EXPECT_EQ(edge("up", "sum").reason, EdgeReason::read_after_write);
  EXPECT_EQ(edge("up", "copy").kind, EdgeKind::issued_before);
}

TEST(OpaqueGraph, ListedEdgesAreAllIfAccessesSayOnlyLifetimes) {
  OpenGraph open = testing::sample_open_graph();
  open.classes[0].edges_from_accesses = false;
  open.classes[0].edges = {{0, 1}, {1, 4}};
  const Graph graph = opaque_graph(open, 0);
  ASSERT_EQ(graph.edges().size(), 2U);
  EXPECT_EQ(graph.edges()[0].reason, EdgeReason::given);
  EXPECT_EQ(graph.edges()[1].reason, EdgeReason::read_after_write);  // both ends use the tensor
  EXPECT_EQ(graph.edges()[1].tensor, graph.find_tensor("y"));
}

TEST(OpaqueGraph, WeftsOwnChannelsKeepTheirNumbers) {
  OpenGraph open = testing::sample_open_graph();
  open.channels[0].name = "z_scatter";
  EXPECT_TRUE(is_own(queue_of(opaque_graph(open, 0), "sum")));
  open.source = "weft";
  EXPECT_EQ(queue_of(opaque_graph(open, 0), "sum"), Channel::z_scatter);
}

TEST(OpaqueGraph, FingerprintsTellEdgesAndQueuesApart) {
  OpenGraph open = testing::sample_open_graph();
  const std::uint64_t first = opaque_graph(open, 0).fingerprint();
  EXPECT_EQ(opaque_graph(open, 0).fingerprint(), first);
  open.classes[0].tasks[1].ns = 1;
  EXPECT_EQ(opaque_graph(open, 0).fingerprint(), first);  // a cost isn't part of the mathematics
  open.classes[0].edges.pop_back();
  EXPECT_NE(opaque_graph(open, 0).fingerprint(), first);
}

TEST(OpaqueGraph, DrawnByWordsInNames) {
  OpenTask task;
  const auto drawn = [&](std::string operation, OpenKind kind) {
    task.operation = std::move(operation);
    task.kind = kind;
    return drawn_as(task);
  };
  EXPECT_EQ(drawn("ncclDevKernel_ReduceScatter_Sum", OpenKind::collective), KindClass::reduce_scatter);
  EXPECT_EQ(drawn("nccl:all_gather", OpenKind::collective), KindClass::all_gather);
  EXPECT_EQ(drawn("all_to_all", OpenKind::collective), KindClass::exchange);
  EXPECT_EQ(drawn("sm90_xmma_gemm_bf16", OpenKind::compute), KindClass::gemm);
  EXPECT_EQ(drawn("flash_fwd_kernel", OpenKind::compute), KindClass::attention);
  EXPECT_EQ(drawn("vectorized_add", OpenKind::compute), KindClass::elementwise);
  EXPECT_EQ(drawn("", OpenKind::send), KindClass::copy);
  EXPECT_EQ(drawn("launch of memcpy", OpenKind::host), KindClass::host);
}

}  // namespace
}  // namespace weft::graph
