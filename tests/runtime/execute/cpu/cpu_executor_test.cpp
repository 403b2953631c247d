// With any order, streams, threads, ranks and delays, the executor computes the results of a plain loop over the tasks.
#include "runtime/execute/cpu/cpu_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "base/error.h"
#include "runtime/execute/program/agree_on_plan.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/odd_world.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

using testing::executable_graph;
using testing::OddWorld;
using testing::StateBytes;

struct Setting {
  int ranks = 2;
  int compute_streams = 1;
  int threads = 1;
  std::string policy = "program";  // or "random"
  std::uint64_t seed = 0;          // of the random policy and the delays; 0: no delays
};

std::unique_ptr<policy::Policy> policy_of(const Setting& setting) {
  if (setting.policy == "random") return std::make_unique<testing::RandomPolicy>(setting.seed, 3);
  return policy::make_policy(setting.policy);
}

// A rank with one plan, ready to run.
struct Rank {
  Rank(comm::World& world, const std::shared_ptr<const graph::Graph>& graph, const Setting& setting,
       std::int64_t kept_steps = 1)
      : plan(agree_on_plan(world, {graph}, *policy_of(setting), {.compute_streams = setting.compute_streams})),
        state(std::array{graph}),
        executor(make_cpu_executor(state, CommunicatorSet(world, channels_of(*plan)),
                                   {.rank = world.rank(), .threads = setting.threads, .kept_steps = kept_steps})),
        handle(executor->load(plan)) {
    testing::fill(*graph, state, world.rank());
  }
  std::shared_ptr<const plan::Plan> plan;
  State state;
  std::unique_ptr<Executor> executor;
  Executor::PlanHandle handle;
};

// Runs three steps on every rank and compares state and times.
void expect_reference(const std::shared_ptr<const graph::Graph>& graph, const std::vector<StateBytes>& expected,
                      const Setting& setting) {
  constexpr int kSteps = 3;
  SCOPED_TRACE(::testing::Message() << setting.policy << ", " << setting.ranks << " ranks, " << setting.compute_streams
                                    << " compute streams, " << setting.threads << " threads, seed " << setting.seed);
  std::vector<StateBytes> actual(static_cast<std::size_t>(setting.ranks));
  testing::on_ranks(setting.ranks, [&](comm::World& plain) {
    OddWorld hesitant = testing::hesitant_world(plain, setting.seed);
    comm::World& world = setting.seed == 0 ? plain : static_cast<comm::World&>(hesitant);
    Rank rank(world, graph, setting, kSteps);
    for (int step = 0; step < kSteps; ++step) rank.executor->run(rank.handle, step);
    actual[static_cast<std::size_t>(world.rank())] = testing::bytes_of(*graph, rank.state);
    testing::expect_order_in_time(*rank.plan, rank.executor->traces(rank.handle));
    EXPECT_EQ(rank.executor->last_trace(rank.handle).step, kSteps - 1);
  });
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    ASSERT_EQ(testing::difference(expected[rank], actual[rank]), "") << "rank " << rank;
  }
}

class ExecutorOnRandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(ExecutorOnRandomGraphs, GivesTheBitsOfAPlainLoop) {
  const int ranks = GetParam();
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "graph " << seed);
    const auto graph = executable_graph(seed, ranks);
    const auto expected = testing::reference_states(graph, ranks, 3);
    testing::Draws draws(seed);
    const auto drawn = [&](std::string policy) {
      return Setting{ranks, static_cast<int>(draws.between(1, 3)), static_cast<int>(draws.between(1, 2)),
                     std::move(policy), draws.chance(50) ? seed : 0};
    };
    expect_reference(graph, expected, {ranks, 1, 1, "serial", 0});
    expect_reference(graph, expected, drawn("program"));
    Setting random = drawn("random");
    random.seed = seed;
    expect_reference(graph, expected, random);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, ExecutorOnRandomGraphs, ::testing::Values(1, 2, 3, 4));

TEST(ExecutableGraph, StaysFiniteAndUsesEveryCollective) {
  std::array<int, std::variant_size_v<graph::OperationVariant>> uses{};
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto graph = executable_graph(seed, 2);
    for (const graph::Task& task : graph->tasks()) ++uses[task.operation.index()];
    const auto states = testing::reference_states(graph, 2, 3);
    for (const auto& [name, bytes] : states[0]) {
      if (graph->tensor(graph->find_tensor(name)).dtype != DType::f32) continue;
      for (std::size_t i = 0; i < bytes.size(); i += 4) {
        float value = 0;
        std::memcpy(&value, &bytes[i], 4);
        ASSERT_TRUE(std::isfinite(value)) << seed << " " << name;
      }
    }
  }
  for (const graph::Operation& operation :
       {graph::Operation(graph::Gemm{}), graph::Operation(graph::Add{}), graph::Operation(graph::RmsNormForward{}),
        graph::Operation(graph::AllReduce{}), graph::Operation(graph::ReduceScatter{}),
        graph::Operation(graph::AllGather{}), graph::Operation(graph::Broadcast{})}) {
    EXPECT_GE(uses[operation.index()], 5) << graph::kind_name(operation);
  }
}

// Bits may not depend on which thread happens to sum: one that has run no task flushes denormals, too.
TEST(CpuExecutor, SumsFlushDenormalsOnEveryThread) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8, graph::Role::parameter), workspace = toy.tensor("workspace", 4);
  toy.add({"reduce", graph::AllReduce{graph::Channel::data, 2, 8}, {graph::read_write(x), graph::write(workspace)}});
  const auto graph = toy.build();
  testing::on_ranks(2, [&](comm::World& world) {
    Rank rank(world, graph, {});
    for (int step = 0; step < 2; ++step) {
      const std::span<float> values = rank.state.get<float>("x");
      std::fill(values.begin(), values.end(), std::numeric_limits<float>::denorm_min());
      std::thread([&] { rank.executor->run(rank.handle, step); }).join();
      for (const float value : values) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0U);
    }
  });
}

// Plans of different stream counts over one state: a thread that has no stream in a step must not disturb it.
TEST(CpuExecutor, PlansTakeTurnsOnOneStateAndOneArena) {
  constexpr int kRanks = 2;
  const std::vector<std::shared_ptr<const graph::Graph>> graphs = {executable_graph(5, kRanks),
                                                                   executable_graph(5, kRanks, {.tasks = 50}),
                                                                   executable_graph(5, kRanks, {.channels = 0})};
  // The first tensors are equal in all three, as the seed and the number of tensors are.
  std::vector<std::vector<StateBytes>> results;
  for (const bool one_stream : {true, false}) {
    std::vector<StateBytes> states(kRanks);
    testing::on_ranks(kRanks, [&](comm::World& plain) {
      OddWorld world = testing::hesitant_world(plain, 3);
      const State state(graphs);
      std::vector<std::shared_ptr<const plan::Plan>> plans;
      std::vector<graph::Channel> channels;
      for (std::size_t i = 0; i < graphs.size(); ++i) {
        const testing::RandomPolicy random(i + 1);
        const std::unique_ptr<policy::Policy> serial = policy::make_policy("serial");
        const int streams = i == 0 ? 3 : i == 1 ? 1 : 2;
        plans.push_back(one_stream ? agree_on_plan(world, {graphs[i]}, *serial, {})
                                   : agree_on_plan(world, {graphs[i]}, random, {.compute_streams = streams}));
        for (const graph::Channel channel : channels_of(*plans.back())) channels.push_back(channel);
      }
      const auto executor =
          make_cpu_executor(state, CommunicatorSet(world, channels), {.rank = world.rank(), .kept_steps = 2});
      for (const auto& plan : plans) executor->load(plan);
      for (const auto& graph : graphs) testing::fill(*graph, state, world.rank());
      std::int64_t step = 0;
      for (int round = 0; round < 3; ++round) {
        for (const std::size_t plan : {0U, 1U, 2U, 0U, 1U, 2U, 2U, 1U, 0U, 0U}) executor->run(plan, step++);
      }
      EXPECT_EQ(executor->traces(2).size(), 2U);
      EXPECT_EQ(executor->traces(2)[0].step, 25);
      EXPECT_EQ(executor->traces(2)[1].step, 26);
      EXPECT_EQ(executor->last_trace(0).step, 29);
      for (const auto& graph : graphs) {
        states[static_cast<std::size_t>(world.rank())].merge(testing::bytes_of(*graph, state));
      }
    });
    results.push_back(std::move(states));
  }
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(testing::difference(results[0][rank], results[1][rank]), "") << "rank " << rank;
  }
}

// The watchdog's counter moves with every entry, whatever the streams tell each other.
TEST(CpuExecutor, EveryEntryCountsAsProgress) {
  const auto graph = executable_graph(4, 1);
  testing::on_ranks(1, [&](comm::World& world) {
    Rank rank(world, graph, {.ranks = 1, .compute_streams = 2, .policy = "random", .seed = 1});
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> most{0};
    std::thread observer([&] {
      while (!done) most = std::max(most.load(), rank.executor->status().completed);
    });
    std::uint64_t steps = 0;
    for (; steps < 1'000'000 && most <= 2 * graph->tasks().size(); ++steps) rank.executor->run(rank.handle);
    done = true;
    observer.join();
    EXPECT_LE(most, steps * graph->tasks().size());
    EXPECT_GT(most, graph->tasks().size());
  });
}

TEST(CpuExecutor, WithoutKeptStepsThereIsNoTrace) {
  const auto graph = executable_graph(99, 2);
  const auto expected = testing::reference_states(graph, 2, 3);
  testing::on_ranks(2, [&](comm::World& world) {
    Rank rank(world, graph, {.compute_streams = 2}, 0);
    for (int step = 0; step < 3; ++step) rank.executor->run(rank.handle, step);
    EXPECT_TRUE(rank.executor->traces(rank.handle).empty());
    EXPECT_THROW(rank.executor->last_trace(rank.handle), std::logic_error);
    const auto actual = testing::bytes_of(*graph, rank.state);
    EXPECT_EQ(testing::difference(expected[static_cast<std::size_t>(world.rank())], actual), "");
  });
}

TEST(CpuExecutor, StatusAndDescriptionMayBeAskedWhileItRuns) {
  const auto graph = executable_graph(4, 2);
  testing::on_ranks(2, [&](comm::World& plain) {
    OddWorld world = testing::hesitant_world(plain, 9);
    Rank rank(world, graph, {.compute_streams = 2, .policy = "random", .seed = 1});
    EXPECT_EQ(rank.executor->describe(), "rank " + std::to_string(world.rank()) + ": between steps");
    std::atomic<bool> done{false};
    std::size_t running = 0;
    std::thread observer([&] {
      while (!done) {
        const std::string text = rank.executor->describe();
        if (rank.executor->status().running) running += text.find("stream compute0: ") != std::string::npos ? 1U : 0U;
      }
    });
    for (int step = 0; step < 10; ++step) rank.executor->run(rank.handle, step);
    done = true;
    observer.join();
    EXPECT_GT(running, 0U);
    EXPECT_FALSE(rank.executor->status().running);
  });
}

// A rank that gives up between its steps, while the others wait for it within one.
TEST(CpuExecutorFailure, ARankThatThrowsEndsTheOthers) {
  for (const int ranks : {2, 4}) {
    for (const int streams : {1, 3}) {
      const auto graph = executable_graph(6, ranks);
      std::atomic<int> lost{0};
      const testing::RanksEnd end = testing::end_of_ranks(ranks, [&](comm::World& world) {
        Rank rank(world, graph, {.ranks = ranks, .compute_streams = streams, .policy = "random", .seed = 2});
        try {
          rank.executor->run(rank.handle);
          if (world.rank() == 1) throw RuntimeFault("disk full");
          rank.executor->run(rank.handle);
        } catch (const comm::PeerLost&) {
          ++lost;
          EXPECT_FALSE(rank.executor->status().running);
          EXPECT_THROW(rank.executor->run(rank.handle), std::logic_error);
          throw;
        }
      });
      EXPECT_EQ(end.code, 3);
      EXPECT_EQ(lost, ranks - 1);
      EXPECT_EQ(end.errors, "weft: error: rank 1: disk full\n");
    }
  }
}

// A collective that breaks on one rank, seen by any thread that polls it.
TEST(CpuExecutorFailure, ABrokenCollectiveEndsEveryRank) {
  const auto graph = executable_graph(8, 3);
  for (std::uint64_t breaks_after = 1; breaks_after < 60; breaks_after += 7) {
    std::atomic<int> lost{0}, broken{0};
    const testing::RanksEnd end = testing::end_of_ranks(3, [&](comm::World& plain) {
      const bool fails = plain.rank() == 2;
      const auto make = [&] {
        return [fails, breaks_after, calls = std::uint64_t{0}]() mutable {
          if (fails && ++calls > breaks_after) throw RuntimeFault("link down");
          return true;
        };
      };
      OddWorld world(plain, make);
      Rank rank(world, graph, {.ranks = 3, .compute_streams = 3, .threads = 2, .policy = "random", .seed = 5});
      try {
        for (int step = 0; step < 1000; ++step) rank.executor->run(rank.handle, step);
      } catch (const comm::PeerLost&) {
        ++lost;
        throw;
      } catch (const RuntimeFault&) {
        ++broken;
        throw;
      }
    });
    EXPECT_EQ(end.code, 3);
    EXPECT_EQ(lost, 2);
    EXPECT_EQ(broken, 1);
    EXPECT_EQ(end.errors, "weft: error: rank 2: link down\n");
  }
}

TEST(CpuExecutor, RefusesWhatItCantRun) {
  testing::ToyGraph toy;
  toy.add("reduce", graph::AllReduce{graph::Channel::data, 1, 4},
          {graph::read_write(toy.tensor("x", 4, graph::Role::parameter)), graph::write(toy.tensor("w", 0))});
  const auto graph = toy.build();
  testing::on_ranks(1, [&](comm::World& world) {
    const auto plan = agree_on_plan(world, {graph}, *policy::make_policy("program"), {});
    const State state(std::array{graph});
    const auto without = make_cpu_executor(state, CommunicatorSet(world, {}), {});
    EXPECT_THROW(without->load(plan), std::logic_error);

    const std::vector<graph::Channel> channels = {graph::Channel::data};
    const auto executor = make_cpu_executor(state, CommunicatorSet(world, channels), {});
    auto backwards = std::make_shared<plan::Plan>(*plan);
    std::reverse(backwards->streams.begin(), backwards->streams.end());
    EXPECT_THROW(executor->load(backwards), std::logic_error);
    const auto handle = executor->load(plan);
    EXPECT_THROW(executor->last_trace(handle), std::logic_error);
    EXPECT_TRUE(executor->traces(handle).empty());
    executor->run(handle);
    EXPECT_THROW(executor->load(plan), std::logic_error);
  });
}

}  // namespace
}  // namespace weft::execute
