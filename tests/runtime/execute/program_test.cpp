// Programs: graphs over one state, policies that agree to the bit, and the end of a run that is stuck.
#include "runtime/execute/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "tests/runtime/executable_graph.h"
#include "tests/runtime/odd_world.h"
#include "tests/runtime/toy_graph.h"

namespace weft {
namespace {

using testing::executable_graph;

// Reads and writes the state that another graph of the same seed has, on other channels.
TEST(Program, EveryPolicyGivesTheSameBitsOverSeveralGraphs) {
  constexpr int kRanks = 3;
  const std::vector<ProgramGraph> graphs = {{"train", executable_graph(21, kRanks)},
                                            {"eval", executable_graph(21, kRanks, {.tasks = 12, .channels = 1})}};
  std::vector<testing::StateBytes> first;
  for (const std::string& policy : policy_names()) {
    for (const int threads : {1, 2}) {
      std::vector<testing::StateBytes> states(kRanks);
      const int code = run_ranks(kRanks, [&](World& world) {
        Program program(
            world, graphs,
            {.policy = make_policy(policy), .policy_options = {.compute_streams = threads}, .threads = threads});
        for (const ProgramGraph& graph : graphs) testing::fill(*graph.graph, program.state(), world.rank());
        for (const char* name : {"train", "train", "eval", "train"}) program.run(name);
        for (const ProgramGraph& graph : graphs) {
          states[static_cast<std::size_t>(world.rank())].merge(testing::bytes_of(*graph.graph, program.state()));
        }
        return 0;
      });
      ASSERT_EQ(code, 0);
      if (first.empty()) first = states;
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(testing::difference(first[rank], states[rank]), "") << policy << ", " << threads << " threads";
      }
    }
  }
}

TEST(Program, KnowsItsGraphsAndItsBytes) {
  const auto large = executable_graph(2, 1), small = executable_graph(2, 1, {.tasks = 3});
  EXPECT_EQ(run_ranks(1,
                      [&](World& world) {
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
                        return 0;
                      }),
            0);
}

TEST(Program, AGraphsOwnPolicyComesBeforeThatOfTheOptions) {
  const auto graph = executable_graph(2, 1, {.tasks = 3});
  const std::vector<ProgramGraph> graphs = {{"own", graph, make_policy("random")}, {"other", graph}};
  EXPECT_EQ(run_ranks(1,
                      [&](World& world) {
                        const Program named(world, graphs, {.policy = make_policy("serial")});
                        EXPECT_EQ(named.plan("own").policy, "random");
                        EXPECT_EQ(named.plan("other").policy, "serial");
                        EXPECT_EQ(Program(world, graphs, {}).plan("other").policy, default_policy()->name());
                        return 0;
                      }),
            0);
  EXPECT_THROW(named_policy("progam"), UserError);
}

TEST(Program, TheWatchdogSleepsBetweenSteps) {
  const auto graph = executable_graph(2, 1, {.tasks = 3});
  EXPECT_EQ(run_ranks(1,
                      [&](World& world) {
                        const Program program(world, {{"train", graph}}, {.watchdog_seconds = 0.02});
                        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // ten times its patience
                        return 0;
                      }),
            0);
}

// a → all-reduce r1 (data), b → all-reduce r2 (x), then c, which needs both.
std::shared_ptr<const Graph> two_reductions(int ranks) {
  testing::ToyGraph toy;
  const View p = toy.tensor("p", 12, Role::parameter), q = toy.tensor("q", 12, Role::parameter);
  const View u = toy.tensor("u", 12), v = toy.tensor("v", 12);
  const View wu = toy.tensor("wu", all_reduce_workspace(12, ranks)),
             wv = toy.tensor("wv", all_reduce_workspace(12, ranks));
  toy.add({"a", Add{12}, {read(p), read(q), write(u)}});
  toy.add({"r1", AllReduce{Channel::data, ranks, 12}, {read_write(u), write(wu)}});
  toy.add({"b", Add{12}, {read(p), read(p), write(v)}});
  toy.add({"r2", AllReduce{Channel::x, ranks, 12}, {read_write(v), write(wv)}});
  toy.add({"c", Add{12}, {read(u), read(v), write(q)}});
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
    run_ranks(3, [&](World& world) {
      Program program(world, {{"train", graph}}, {.watchdog_seconds = 0.3});
      if (world.rank() == 2) std::binary_semaphore(0).acquire();
      program.run("train");
      return 0;
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

// One collective of one rank is mute: every rank is inside a step and reports.
TEST_F(ProgramDeathTest, AMuteCollectiveIsReportedByEveryRank) {
  const auto run = [] {
    const auto graph = two_reductions(2);
    run_ranks(2, [&](World& plain) {
      testing::OddWorld world(plain, [mute = plain.rank() == 1] { return [mute] { return !mute; }; });
      Program program(world, {{"train", graph}}, {.policy = make_policy("serial"), .watchdog_seconds = 0.3});
      program.run("train");
      return 0;
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
}  // namespace weft
