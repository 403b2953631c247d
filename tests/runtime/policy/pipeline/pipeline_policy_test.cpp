#include "runtime/policy/pipeline/pipeline_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/base/messages.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/pipeline/random_pipeline.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/policy/quick_policies.h"

namespace weft::policy {
namespace {

std::vector<std::string> quick_pipeline_policies() {
  std::vector<std::string> names = testing::with_short_searches(pipeline_policy_names());
  for (const char* variant :
       {"interleaved:chunks=3", "pipe-list:chunks=2", "pipe-list:chunks=3,placement=v",
        "pipe-search:chunks=2,placement=v,moves=30", "critical-path:chunks=2", "lhs:chunks=2,placement=v",
        "portfolio:budget=10,chunks=2", "exact:budget=4,nodes=1000,chunks=2,placement=v"})
    names.emplace_back(variant);
  return names;
}

TEST(PipelinePolicies, AllGiveSafePlansOfRandomPipelinesAndTheSameOnesTwice) {
  for (const std::string& name : quick_pipeline_policies()) {
    const auto policy = make_policy(name);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(name + ", seed " + std::to_string(seed));
      const auto classes = testing::random_pipeline(seed, policy->chunks());
      const PolicyOptions options{.compute_streams = static_cast<int>(1 + seed % 2)};
      const std::vector<plan::Order> orders = policy->orders(classes, options);
      testing::checked_plans_of(classes, orders);
      EXPECT_EQ(orders, make_policy(name)->orders(classes, options));
    }
  }
}

/// The toy's class with a collective of the first and the last stage before a task.
std::shared_ptr<const graph::Graph> with_shared_collective(const graph::Graph& toy, const std::string& before) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  for (const graph::Tensor& tensor : toy.tensors()) builder.add_tensor(tensor);
  const graph::View sum = graph::whole(builder, builder.add_tensor({"sum", DType::f32, {4}}));
  for (const graph::Task& task : toy.tasks()) {
    if (task.name == before) {
      builder.add_task({.name = "shared",
                        .operation = graph::AllReduce{graph::Channel::embedding, 2, 4},
                        .accesses = {graph::write(sum)}});
    }
    builder.add_task(task);
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

// A last stage may have its part of a sum with the first stage before it sends the gradient that the first one's part
// waits for, as with tied embeddings. Blocking there would be a deadlock.
TEST(PipelinePolicies, SharedCollectivesComeWhereAllStagesCanBegin) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 4, .update = 10});
  const std::vector<std::shared_ptr<const graph::Graph>> classes = {
      with_shared_collective(*toy.classes()[0], "S0.update.p0"),
      with_shared_collective(*toy.classes()[1], "mb3.S1.bwd.input.p0")};
  for (const std::string& name : quick_pipeline_policies()) {
    if (make_policy(name)->chunks().chunks == 1) testing::checked_plans(classes, name);
  }
}

// Only the first compute stream is used.
TEST(PipelinePolicies, UseOneComputeStream) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 4});
  const auto plans = testing::checked_plans(toy.classes(), "zb-h1", {.compute_streams = 2});
  EXPECT_FALSE(plans[0].streams[0].entries.empty());
  EXPECT_TRUE(plans[0].streams[1].stream.compute);
  EXPECT_TRUE(plans[0].streams[1].entries.empty());
}

TEST(PipelinePolicies, AProgramWithoutStagesIsOrderedAsByProgram) {
  const auto graph = testing::random_graph(5, {.channels = 3});
  const plan::Order order = testing::order_of(*make_policy("program"), *graph);
  const std::vector<std::string> of_graphs = graph_policy_names();
  for (const std::string& name : pipeline_policy_names()) {
    if (std::ranges::find(of_graphs, name) != of_graphs.end()) continue;
    EXPECT_EQ(testing::order_of(*make_policy(name), *graph), order) << name;
  }
}

// A message is on its way while its receiver computes, and the receiver's buffer is used again.
TEST(PipelinePolicies, MessagesRunBesideComputations) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 6, .message = 300});
  const PolicyOptions options{.cost_model = toy.prices()};
  const auto plans = testing::checked_plans(toy.classes(), "gpipe", options);
  // Only the first message of each direction is waited for.
  EXPECT_EQ(testing::idle_times(toy, plans).of_step, 2000 + 2 * 300);
  const testing::PipelineToy longer({.stages = 2, .micro_batches = 30, .message = 300});
  const auto more = testing::checked_plans(longer.classes(), "1f1b", options);
  EXPECT_LE(more[0].scratch_bytes, testing::checked_plans(toy.classes(), "1f1b", options)[0].scratch_bytes + 512);
}

TEST(PipelinePolicies, OneGraphPoliciesRefuseStages) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 3});
  EXPECT_EQ(testing::message_of<UserError>([&] { decide(toy.classes(), *make_policy("axonn")); }),
            "policy axonn orders one graph, and this program has 3 pipeline stages; expected a policy that orders "
            "pipelines: serial, program, critical-path, lhs, random, anneal, portfolio, exact, gpipe, 1f1b, "
            "interleaved, zb-h1, zb-v, dualpipe-v, pipe-list, pipe-search\n  fix: choose one of these with --policy");
}

TEST(PipelinePolicies, ChunksArePartOfThePolicy) {
  EXPECT_EQ(make_policy("1f1b")->chunks(), graph::PipelineChunks());
  EXPECT_EQ(make_policy("interleaved:chunks=4")->chunks(), (graph::PipelineChunks{4, graph::ChunkPlacement::loop}));
  EXPECT_EQ(make_policy("zb-v")->chunks(), (graph::PipelineChunks{2, graph::ChunkPlacement::v}));
  EXPECT_EQ(make_policy("dualpipe-v")->chunks(), (graph::PipelineChunks{2, graph::ChunkPlacement::v}));
  for (const char* name : {"pipe-list", "pipe-search", "critical-path", "lhs", "anneal", "portfolio", "exact"}) {
    EXPECT_EQ(make_policy(name)->chunks(), graph::PipelineChunks()) << name;
    EXPECT_EQ(make_policy(std::string(name) + ":chunks=2,placement=v")->chunks(),
              (graph::PipelineChunks{2, graph::ChunkPlacement::v}))
        << name;
  }
}

}  // namespace
}  // namespace weft::policy
