// Programs: graphs over one state, policies that agree to the bit, and the end of a run that is stuck.
#include "runtime/execute/program/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/odd_world.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

using testing::executable_graph;

// Reads and writes the state that another graph of the same seed has, on other channels.
TEST(Program, EveryPolicyGivesTheSameBitsOverSeveralGraphs) {
  constexpr int kRanks = 3;
  const std::vector<ProgramGraph> graphs = {{"train", executable_graph(21, kRanks)},
                                            {"eval", executable_graph(21, kRanks, {.tasks = 12, .channels = 1})}};
  std::vector<testing::StateBytes> first;
  for (const std::string& policy : testing::quick_graph_policies()) {
    for (const int threads : {1, 2}) {
      std::vector<testing::StateBytes> states(kRanks);
      testing::on_ranks(kRanks, [&](comm::World& world) {
        Program program(world, graphs,
                        {.policy = policy::make_policy(policy),
                         .policy_options = {.compute_streams = threads},
                         .threads = threads});
        for (const ProgramGraph& graph : graphs) testing::fill(*graph.graph, program.state(), world.rank());
        for (const char* name : {"train", "train", "eval", "train"}) program.run(name);
        for (const ProgramGraph& graph : graphs) {
          states[static_cast<std::size_t>(world.rank())].merge(testing::bytes_of(*graph.graph, program.state()));
        }
      });
      if (first.empty()) first = states;
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(testing::difference(first[rank], states[rank]), "") << policy << ", " << threads << " threads";
      }
    }
  }
}

TEST(Program, KnowsItsGraphsAndItsBytes) {
  const auto large = executable_graph(2, 1), small = executable_graph(2, 1, {.tasks = 3});
  testing::on_ranks(1, [&](comm::World& world) {
    Program program(world, {{"train", large}, {"eval", small}}, {.kept_steps = 4});
    EXPECT_TRUE(program.contains("train"));
    EXPECT_FALSE(program.contains("decode"));
    EXPECT_THROW(program.run("decode"), std::logic_error);
    EXPECT_THROW(program.plan("decode"), std::logic_error);
    EXPECT_EQ(program.plan("eval").graph, small);
    EXPECT_EQ(program.plan("train").policy, "program");
    EXPECT_EQ(program.state_bytes(), program.state().bytes());
    for (std::int64_t step = 0; step < 6; ++step) program.run("eval", step);
    EXPECT_TRUE(program.traces("train").empty());
    EXPECT_EQ(program.traces("eval").size(), 4U);
    EXPECT_EQ(program.traces("eval").front().step, 2);
    EXPECT_EQ(program.last_trace("eval").step, 5);
    EXPECT_GE(program.scratch_bytes(), program.plan("train").scratch_bytes);
  });
}

TEST(Program, AGraphsOwnPolicyComesBeforeThatOfTheOptions) {
  const auto graph = executable_graph(2, 1, {.tasks = 3});
  const std::vector<ProgramGraph> graphs = {{"own", graph, policy::make_policy("random")}, {"other", graph}};
  testing::on_ranks(1, [&](comm::World& world) {
    const Program named(world, graphs, {.policy = policy::make_policy("serial")});
    EXPECT_EQ(named.plan("own").policy, "random");
    EXPECT_EQ(named.plan("other").policy, "serial");
    EXPECT_EQ(Program(world, graphs, {}).plan("other").policy, policy::default_policy()->name());
  });
  EXPECT_THROW(policy::named_policy("progam"), UserError);
}

TEST(Program, TheWatchdogSleepsBetweenSteps) {
  const auto graph = executable_graph(2, 1, {.tasks = 3});
  testing::on_ranks(1, [&](comm::World& world) {
    const Program program(world, {{"train", graph}}, {.watchdog_seconds = 0.02});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // ten times its patience
  });
}

// a → all-reduce r1 (data), b → all-reduce r2 (x), then c, which needs both.
std::shared_ptr<const graph::Graph> two_reductions(int ranks) {
  testing::ToyGraph toy;
  const graph::View p = toy.tensor("p", 12, graph::Role::parameter), q = toy.tensor("q", 12, graph::Role::parameter);
  const graph::View u = toy.tensor("u", 12), v = toy.tensor("v", 12);
  const graph::View wu = toy.tensor("wu", graph::all_reduce_workspace(12, ranks)),
                    wv = toy.tensor("wv", graph::all_reduce_workspace(12, ranks));
  toy.add({"a", graph::Add{12}, {graph::read(p), graph::read(q), graph::write(u)}});
  toy.add({"r1", graph::AllReduce{graph::Channel::data, ranks, 12}, {graph::read_write(u), graph::write(wu)}});
  toy.add({"b", graph::Add{12}, {graph::read(p), graph::read(p), graph::write(v)}});
  toy.add({"r2", graph::AllReduce{graph::Channel::x, ranks, 12}, {graph::read_write(v), graph::write(wv)}});
  toy.add({"c", graph::Add{12}, {graph::read(u), graph::read(v), graph::write(q)}});
  return toy.build();
}

class ProgramDeathTest : public ::testing::Test {
 protected:
  ProgramDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }  // ranks are threads
};

// Rank 2 is lost outside of its steps: both others must say where they wait, in either order.
TEST_F(ProgramDeathTest, ARankThatNeverJoinsIsReportedByAllThatWait) {
  const auto run = [] {
    const auto graph = two_reductions(3);
    testing::on_ranks(3, [&](comm::World& world) {
      Program program(world, {{"train", graph}}, {.watchdog_seconds = 0.3});
      if (world.rank() == 2) std::binary_semaphore(0).acquire();
      program.run("train");
    });
  };
  const auto report = [](int rank) {
    return "rank " + std::to_string(rank) +
           ":\n  stream compute0: 2 of 3 tasks done, at task 'c', waits for 'r2' on x, 'r1' on data\n"
           "  stream x: 0 of 1 tasks done, at collective 'r2', posted: waits for its peers\n"
           "  stream data: 0 of 1 tasks done, at collective 'r1', posted: waits for its peers\n";
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(3),
              "(" + report(0) + report(1) + "|" + report(1) + report(0) + ").*ranks without a report");
}

// A collective of one rank is mute: every rank is inside a step and reports.
TEST_F(ProgramDeathTest, AMuteCollectiveIsReportedByEveryRank) {
  const auto run = [] {
    const auto graph = two_reductions(2);
    testing::on_ranks(2, [&](comm::World& plain) {
      testing::OddWorld world(plain, [mute = plain.rank() == 1] { return [mute] { return !mute; }; });
      Program program(world, {{"train", graph}}, {.policy = policy::make_policy("serial"), .watchdog_seconds = 0.3});
      program.run("train");
    });
  };
  const std::string report =
      ":\n  stream compute0: 1 of 3 tasks done, at task 'b', waits for 'r1' on data\n"
      "  stream x: 0 of 1 tasks done, at collective 'r2', waits for 'b' on compute0\n"
      "  stream data: 0 of 1 tasks done, at collective 'r1', posted: waits for its peers\n";
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(3),
              "(rank 0" + report + "rank 1" + report + "|rank 1" + report + "rank 0" + report + ")");
}

}  // namespace
}  // namespace weft::execute
