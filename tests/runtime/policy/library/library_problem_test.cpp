#include "runtime/policy/library/library_problem.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

#include "tests/runtime/links.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/toy_graph.h"

namespace weft::policy {
namespace {

class LibraryProblemTest : public ::testing::Test {
 protected:
  LibraryProblemTest() {
    testing::ToyGraph toy;
    const graph::View x = toy.tensor("x", 64), w = toy.tensor("w", 32, graph::Role::parameter);
    toy.tensor("unused", 8);
    toy.compute("a", {graph::read(w), graph::write(x)});
    toy.collective("r", graph::Channel::data, {graph::read_write(x)}, 64);
    toy.collective("s", graph::Channel::x, {graph::read_write(x)}, 64);
    toy.compute("b", {graph::read(x), graph::read_write(w)});
    graph_ = toy.build();
    options_.memory_limit = 4096;
    options_.seed = 7;
  }
  const weft2_problem& described() {
    streams_ = {plan::streams_of(*graph_, 2)};
    costs_ = costs_of(*graph_, options_);
    made_ = std::make_unique<LibraryProblem>(graph::Classes(&graph_, 1), streams_, std::span(&costs_, 1),
                                             std::span(&options_.memory_limit, 1), options_, parameters_);
    return made_->problem();
  }

  std::shared_ptr<const graph::Graph> graph_;
  PolicyOptions options_;
  std::string parameters_ = "depth=2";
  std::vector<std::vector<plan::Stream>> streams_;
  cost::TaskCosts costs_;
  std::unique_ptr<LibraryProblem> made_;
};

TEST_F(LibraryProblemTest, HasTasksTensorsAndEdges) {
  const weft2_problem& problem = described();
  ASSERT_EQ(problem.class_count, 1U);
  EXPECT_TRUE(WEFT_HAS(&problem, seed));
  EXPECT_EQ(problem.seed, 7U);
  EXPECT_STREQ(problem.parameters, "depth=2");
  const weft2_class& all = problem.classes[0];
  EXPECT_EQ(all.memory_limit, 4096);
  ASSERT_EQ(all.task_count, 4U);
  const weft2_task& b = all.tasks[3];
  EXPECT_STREQ(b.name, "b");
  EXPECT_EQ(b.channel, -1);
  EXPECT_EQ(b.peer_task, WEFT2_NONE);
  ASSERT_EQ(b.access_count, 2U);
  EXPECT_EQ(all.accesses[b.access_begin].mode, weft2_read);
  EXPECT_EQ(all.accesses[b.access_begin + 1].mode, weft2_read_write);
  EXPECT_EQ(all.accesses[b.access_begin].bytes, 256);
  EXPECT_EQ(b.cost_ns, costs_.ns[3]);
  ASSERT_EQ(all.tensor_count, 3U);
  EXPECT_STREQ(all.tensors[0].name, "x");
  EXPECT_EQ(all.tensors[0].outlives, 0);
  EXPECT_EQ(all.tensors[0].first, 0U);
  EXPECT_EQ(all.tensors[0].last, 3U);
  EXPECT_EQ(all.tensors[1].role, weft2_role_parameter);
  EXPECT_EQ(all.tensors[1].outlives, 1);
  EXPECT_EQ(all.tensors[2].first, WEFT2_NONE);
  ASSERT_EQ(all.edge_count, graph_->edges().size());
  bool next_step = false;
  for (std::size_t e = 0; e < all.edge_count; ++e) {
    EXPECT_EQ(all.edges[e].from, graph_->edges()[e].from.value);
    next_step = next_step || all.edges[e].distance == 1;
  }
  EXPECT_TRUE(next_step) << "b updates w, which a reads in the next step";
}

TEST_F(LibraryProblemTest, HasChannelsThatShareLinks) {
  const weft2_problem& alone = described();
  const weft2_class& all = alone.classes[0];
  ASSERT_EQ(all.stream_count, 4U);
  EXPECT_EQ(all.streams[1].channel, -1);
  ASSERT_EQ(alone.channel_count, 2U);
  EXPECT_STREQ(alone.channels[all.tasks[1].channel].name, "data");
  EXPECT_STREQ(alone.channels[all.tasks[2].channel].name, "x");
  EXPECT_NE(alone.channels[0].link, alone.channels[1].link);
  EXPECT_EQ(alone.links[0].bytes_per_ns, 0);
  EXPECT_EQ(alone.shared_cores, 0);

  cost::Machine machine;
  machine.network = {.latency = 2e-6, .bandwidth = 5e9};
  machine.slowdowns = {{"gemm", "", 1.25}};
  machine.shared_cores = true;
  machine.cores = 3;
  options_.machine = std::make_shared<cost::Machine>(machine);
  options_.link_of_channel = testing::one_link(1);
  const weft2_problem& shared = described();
  ASSERT_EQ(shared.link_count, 1U);
  EXPECT_EQ(shared.channels[0].link, shared.channels[1].link);
  EXPECT_STREQ(shared.links[0].name, "network");
  EXPECT_DOUBLE_EQ(shared.links[0].bytes_per_ns, 5);
  EXPECT_DOUBLE_EQ(shared.links[0].latency_ns, 2000);
  ASSERT_EQ(shared.slowdown_count, 1U);
  EXPECT_STREQ(shared.slowdowns[0].compute_kind, "gemm");
  EXPECT_EQ(shared.slowdowns[0].factor, 1.25);
  EXPECT_EQ(shared.shared_cores, 3);
}

TEST(LibraryProblem, ClassesMeetInMessagesAndSharedCollectives) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2, .world = true});
  const PolicyOptions options;
  std::vector<std::vector<plan::Stream>> streams;
  for (const auto& graph : toy.classes()) streams.push_back(plan::streams_of(*graph, 1));
  const std::vector<cost::TaskCosts> costs = toy.costs();
  const std::vector<std::int64_t> limits = {0, 4096};
  const LibraryProblem made(toy.classes(), streams, costs, limits, options, "");
  const weft2_problem& problem = made.problem();
  ASSERT_EQ(problem.class_count, 2U);
  EXPECT_EQ(problem.classes[1].memory_limit, 4096);
  std::size_t messages = 0, shared = 0;
  for (std::uint32_t t = 0; t < problem.classes[0].task_count; ++t) {
    const weft2_task& task = problem.classes[0].tasks[t];
    const std::uint32_t meeting = problem.classes[0].meetings[t];
    if (meeting == WEFT2_NONE) continue;
    if (task.peer_class == WEFT2_NONE) {
      ++shared;
      continue;
    }
    ++messages;
    ASSERT_EQ(task.peer_class, 1U);
    const weft2_task& peer = problem.classes[1].tasks[task.peer_task];
    EXPECT_EQ(problem.classes[1].meetings[task.peer_task], meeting);
    EXPECT_EQ(peer.peer_class, 0U);
    EXPECT_EQ(peer.peer_task, t);
  }
  EXPECT_EQ(messages, 4U);  // of two micro-batches, forward and backward
  EXPECT_GE(shared, 1U);
}

}  // namespace
}  // namespace weft::policy
