// simulate(): pipelines in virtual time.
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "base/error.h"
#include "runtime/simulate/simulator.h"
#include "tests/base/messages.h"
#include "tests/runtime/links.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/toy_graph.h"

namespace weft::simulate {
namespace {

using testing::order_of;
using testing::pipeline_plans;
using testing::PipelineToy;
using testing::pointers_to;
using testing::ToyGraph;
using Strings = std::vector<std::string>;

SimulationOptions joint_options(const graph::Grid& grid, int link = -1) {
  return {.grid = grid, .link_of_channel = link < 0 ? testing::own_links() : testing::one_link(link)};
}

/// "begin-end" of tasks in the last step of a rank.
Strings times(const plan::Plan& plan, const SimulatedRank& rank, const Strings& tasks) {
  Strings found;
  for (const std::string& task : tasks) found.push_back(testing::time_of(plan, rank.steps.back(), task));
  return found;
}

TEST(SimulateTogether, TwoStagesByHand) {
  const PipelineToy toy({.forward = 1000, .input = 800, .weight = 700, .update = 50, .message = 100});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  const Simulation result = simulate(pointers_to(plans), toy.costs(), {}, joint_options(toy.grid()));
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[0].rank, 0);
  EXPECT_EQ(result.ranks[1].rank, 1);
  EXPECT_EQ(times(plans[0], result.ranks[0],
                  {"mb0.S0.fwd.p0", "mb1.S0.fwd.p0", "mb0.S0.fwd.send", "mb1.S0.fwd.send", "mb0.S0.bwd.receive",
                   "mb0.S0.bwd.input.p0", "mb0.S0.bwd.weight.p0", "mb1.S0.bwd.input.p0", "mb1.S0.bwd.weight.p0",
                   "S0.update.p0"}),
            (Strings{"0-1000", "1000-2000", "1000-1100", "2000-2100", "0-4000", "4000-4800", "4800-5500", "5500-6300",
                     "6300-7000", "7000-7050"}));
  EXPECT_EQ(times(plans[1], result.ranks[1],
                  {"mb0.S1.fwd.receive", "mb0.S1.fwd.p0", "mb1.S1.fwd.receive", "mb1.S1.fwd.p0", "mb0.S1.bwd.input.p0",
                   "mb0.S1.bwd.send", "mb0.S1.bwd.weight.p0", "mb1.S1.bwd.input.p0", "mb1.S1.bwd.send",
                   "mb1.S1.bwd.weight.p0", "S1.update.p0"}),
            (Strings{"0-1100", "1100-2100", "1100-2100", "2100-3100", "3100-3900", "3900-4000", "3900-4600",
                     "4600-5400", "5400-5500", "5400-6100", "6100-6150"}));
  EXPECT_EQ(result.step_ns, 7050);
  EXPECT_EQ(result.events, 22);
}

// A stage computes at half speed while the other one does too.
TEST(SimulateTogether, RanksOfAPoolShareItsCores) {
  const PipelineToy toy({.forward = 1000, .input = 800, .weight = 700, .update = 50, .message = 100});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  cost::Machine machine;
  machine.cores = 1;
  SimulationOptions options = joint_options(toy.grid());
  options.core_pools = {{{0, 1}, 1}};
  const Simulation shared = simulate(pointers_to(plans), toy.costs(), machine, options);
  EXPECT_EQ(times(plans[0], shared.ranks[0], {"mb0.S0.fwd.p0", "mb1.S0.fwd.p0", "mb1.S0.fwd.send"}),
            (Strings{"0-1000", "1000-2900", "2900-3000"}));
  EXPECT_EQ(times(plans[1], shared.ranks[1], {"mb0.S1.fwd.p0", "mb1.S1.fwd.p0", "mb0.S1.bwd.input.p0"}),
            (Strings{"1100-3000", "3000-4000", "4000-4800"}));
  // One core does all the work of both.
  EXPECT_GE(shared.step_ns, 2 * (2 * (1000 + 800 + 700) + 50));
  EXPECT_GT(shared.ranks[0].contention_ns, 900);
  options.core_pools = {{{0, 1}, 2}};
  EXPECT_EQ(simulate(pointers_to(plans), toy.costs(), machine, options).step_ns, 7050);
}

// A message beside computations progresses with the ranks' share of the core, as they poll it between slices of tasks.
TEST(SimulateTogether, MessagesOfAPoolTakeTheSharesOfTheirRanks) {
  const PipelineToy toy({.micro_batches = 3, .forward = 1000, .message = 100});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  cost::Machine machine;
  machine.cores = 1;
  SimulationOptions options = joint_options(toy.grid());
  options.core_pools = {{{0, 1}, 1}};
  const Simulation shared = simulate(pointers_to(plans), toy.costs(), machine, options);
  EXPECT_EQ(times(plans[0], shared.ranks[0], {"mb0.S0.fwd.send", "mb1.S0.fwd.p0", "mb1.S0.fwd.send"}),
            (Strings{"1000-1100", "1000-2900", "2900-3100"}));
  EXPECT_EQ(times(plans[1], shared.ranks[1], {"mb0.S1.fwd.p0"}), Strings{"1100-3100"});
}

// The next step begins when all stages have ended, and takes as long.
TEST(SimulateTogether, StepsFollowEachOther) {
  const PipelineToy toy({.stages = 3, .micro_batches = 4, .world = true});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_1f1b);
  SimulationOptions options = joint_options(toy.grid());
  options.steps = 2;
  const Simulation result = simulate(pointers_to(plans), toy.costs(), {}, options);
  EXPECT_EQ(result.step_ns, 16000);
  for (const SimulatedRank& rank : result.ranks) {
    ASSERT_EQ(rank.steps.size(), 2U);
    EXPECT_EQ(rank.steps[1].step, 1);
    EXPECT_EQ(rank.steps[1].begin, 16000);
    EXPECT_EQ(rank.steps[1].end, 32000);
  }
}

TEST(SimulateTogether, CollectivesOfSeveralStagesWaitForTheLast) {
  const PipelineToy toy({.stages = 3, .micro_batches = 1, .collective = 40, .world = true, .embedding = true});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_in_program_order);
  const Simulation result = simulate(pointers_to(plans), toy.costs(), {}, joint_options(toy.grid()));
  // Stage 2 is done at 5000, stage 0 at 7000.
  EXPECT_EQ(times(plans[2], result.ranks[2], {"embedding_gradient"}), Strings{"5000-7040"});
  EXPECT_EQ(times(plans[0], result.ranks[0], {"embedding_gradient"}), Strings{"7000-7040"});
  EXPECT_EQ(times(plans[1], result.ranks[1], {"gradient_norm"}), Strings{"6000-7080"});
  EXPECT_EQ(result.step_ns, 7080);
}

/// Tasks a of 10 and messages of 100: the plans of three stages that send as listed, right after a.
struct Crossing3 {
  explicit Crossing3(const std::map<std::size_t, std::vector<graph::Channel>>& sends) {
    for (std::size_t stage = 0; stage < 3; ++stage) {
      ToyGraph toy;
      const graph::View x = toy.tensor("x", 8);
      std::vector<std::pair<std::string, std::string>> order = {{"a", "compute0"}};
      toy.compute("a", {graph::write(x)});
      const auto add = [&](graph::Channel channel, const graph::Operation& operation, graph::Access access) {
        const std::string name(graph::to_string(channel));
        toy.add({.name = name, .operation = operation, .accesses = {access}});
        order.emplace_back(name, name);
      };
      for (const auto& [from, channels] : sends) {
        for (const graph::Channel channel : channels) {
          if (from == stage) add(channel, graph::Send{channel, 1, 8}, graph::read(x));
          const auto to = graph::peer_stage(channel, static_cast<std::int64_t>(from), 3);
          const graph::Channel end = graph::other_end(channel);
          if (static_cast<std::size_t>(to) != stage) continue;
          add(end, graph::Receive{end, 1, 8}, graph::write(toy.tensor(std::string(graph::to_string(end)) + "'s", 8)));
        }
      }
      const auto graph = toy.build();
      plans.push_back(plan::make_plan(graph, order_of(*graph, 1, order), "mine"));
      cost::TaskCosts cost;
      for (const graph::Task& task : graph->tasks()) {
        cost.ns.push_back(task.name == "a" ? 10 : std::holds_alternative<graph::Send>(task.operation) ? 100 : 0);
        cost.cpu_ns.push_back(std::holds_alternative<graph::Receive>(task.operation) ? 50 : 0);
      }
      costs.push_back(cost);
    }
  }
  Simulation run(int link, const cost::Machine& machine = {}) const {
    graph::Grid grid;
    grid.pipe = 3;
    return simulate(pointers_to(plans), costs, machine, joint_options(grid, link));
  }
  std::vector<plan::Plan> plans;
  std::vector<cost::TaskCosts> costs;
};

TEST(SimulateTogether, MessagesThatLeaveARankShareItsLink) {
  const Crossing3 apart({{1, {graph::Channel::send_next, graph::Channel::send_previous}}});
  EXPECT_EQ(times(apart.plans[1], apart.run(-1).ranks[1], {"send_next", "send_previous"}),
            (Strings{"10-110", "10-110"}));
  EXPECT_EQ(times(apart.plans[1], apart.run(0).ranks[1], {"send_next", "send_previous"}),
            (Strings{"10-210", "10-210"}));
}

TEST(SimulateTogether, MessagesThatArriveShareTheLinkToo) {
  const Crossing3 crossing({{0, {graph::Channel::send_next}}, {2, {graph::Channel::send_previous}}});
  const Simulation result = crossing.run(0);
  EXPECT_EQ(times(crossing.plans[0], result.ranks[0], {"send_next"}), Strings{"10-210"});
  EXPECT_EQ(times(crossing.plans[1], result.ranks[1], {"receive_previous", "receive_next"}),
            (Strings{"0-210", "0-210"}));
}

TEST(SimulateTogether, BothDirectionsOfALinkRunAtOnce) {
  const Crossing3 crossing({{0, {graph::Channel::send_next}}, {1, {graph::Channel::send_previous}}});
  const Simulation result = crossing.run(0);
  EXPECT_EQ(times(crossing.plans[0], result.ranks[0], {"send_next", "receive_next"}), (Strings{"10-110", "0-110"}));
  EXPECT_EQ(times(crossing.plans[1], result.ranks[1], {"receive_previous", "send_previous"}),
            (Strings{"0-110", "10-110"}));
}

// A receive takes 50 of the 100 that the message lasts: half a core of one beside a.
TEST(SimulateTogether, AReceiveTakesCoresFromItsOwnRank) {
  Crossing3 crossing({{0, {graph::Channel::send_next}}});
  crossing.costs[1].ns[0] = 200;  // a of stage 1
  cost::Machine machine;
  machine.cores = 1;
  EXPECT_EQ(crossing.run(-1, machine).step_ns, 200);
  machine.shared_cores = true;
  EXPECT_EQ(crossing.run(-1, machine).step_ns, 250);
}

// The bytes of each message occupy the link for half of its time, and beside computations it takes four times as long.
TEST(SimulateTogether, AReceiveHasItsSendsUseOfTheLinkAndRateBesideComputations) {
  Crossing3 crossing({{0, {graph::Channel::send_next}}, {2, {graph::Channel::send_previous}}});
  for (const std::size_t stage : {0U, 2U}) {
    crossing.costs[stage].link_ns = {10, 50};
    crossing.costs[stage].beside_ns = {10, 400};
  }
  const Strings receives = {"receive_previous", "receive_next"};
  EXPECT_EQ(times(crossing.plans[1], crossing.run(0).ranks[1], receives), (Strings{"0-110", "0-110"}));
  crossing.costs[1].ns[0] = 1000;  // a of stage 1
  EXPECT_EQ(times(crossing.plans[1], crossing.run(0).ranks[1], receives), (Strings{"0-410", "0-410"}));
}

TEST(SimulateTogether, ASlowRankHoldsUpItsOwnPipeline) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  graph::Grid grid = toy.grid();
  grid.data = 2;  // ranks 0, 1 and ranks 2, 3
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  SimulationOptions options = joint_options(grid);
  options.slow_rank = 2;
  const Simulation result = simulate(pointers_to(plans), toy.costs(), {}, options);
  ASSERT_EQ(result.ranks.size(), 4U);
  const Strings first = {"mb0.S0.fwd.p0", "mb1.S0.bwd.weight.p0"}, second = {"mb0.S1.fwd.p0", "mb1.S1.bwd.weight.p0"};
  EXPECT_EQ(times(plans[0], result.ranks[0], first), (Strings{"0-2000", "12000-14000"}));
  EXPECT_EQ(times(plans[1], result.ranks[1], second), (Strings{"2000-3000", "8000-9000"}));
  EXPECT_EQ(times(plans[0], result.ranks[2], first), (Strings{"0-1000", "7000-8000"}));
  EXPECT_EQ(times(plans[1], result.ranks[3], second), (Strings{"1000-2000", "6000-7000"}));
  EXPECT_EQ(result.step_ns, 14000);
  options.traced_ranks = 3;
  EXPECT_EQ(simulate(pointers_to(plans), toy.costs(), {}, options).ranks.size(), 3U);
}

TEST(SimulateTogether, NoiseIsDrawnForEachRankAndRepeats) {
  const PipelineToy toy({.stages = 3, .micro_batches = 4, .message = 100});
  graph::Grid grid = toy.grid();
  grid.data = 2;
  const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_1f1b);
  SimulationOptions options = joint_options(grid);
  options.noise = 0.2;
  options.seed = 3;
  const Simulation a = simulate(pointers_to(plans), toy.costs(), {}, options),
                   b = simulate(pointers_to(plans), toy.costs(), {}, options);
  EXPECT_EQ(a.step_ns, b.step_ns);
  ASSERT_EQ(a.ranks.size(), 6U);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(a.ranks[rank].steps[0].times, b.ranks[rank].steps[0].times);
    EXPECT_NE(a.ranks[rank].steps[0].times, a.ranks[(rank + 3) % 6].steps[0].times);
  }
  // Both ends of a message end together, on rank 1 as on rank 2.
  const auto end = [&](std::size_t stage, std::size_t rank, const std::string& task) {
    const std::string text = times(plans[stage], a.ranks[rank], {task})[0];
    return text.substr(text.find('-'));
  };
  EXPECT_EQ(end(1, 1, "mb2.S1.fwd.send"), end(2, 2, "mb2.S2.fwd.receive"));
  EXPECT_EQ(end(1, 4, "mb3.S1.bwd.send"), end(0, 3, "mb3.S0.bwd.receive"));
  options.seed = 4;
  EXPECT_NE(simulate(pointers_to(plans), toy.costs(), {}, options).step_ns, a.step_ns);
}

TEST(SimulateTogether, PlansThatDeadlockAreNamed) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2});
  const std::vector<plan::Plan> plans = pipeline_plans(toy, [](auto& t, std::int64_t rank) {
    return rank == 0 ? units_in_program_order(t, rank) : units_of_gpipe(t, rank);
  });
  EXPECT_EQ(testing::message_of<RuntimeFault>(
                [&] { (void)simulate(pointers_to(plans), toy.costs(), {}, joint_options(toy.grid())); }),
            "the plans of policy 'mine' deadlock:\n"
            "  stage 0: 'mb0.S0.bwd.input.p0' (compute0) waits for 'mb0.S0.bwd.receive' (receive_next)\n"
            "  stage 0: 'mb1.S0.fwd.send' (send_next) waits for 'mb1.S0.fwd.p0' (compute0)\n"
            "  stage 0: 'mb0.S0.bwd.receive' (receive_next) waits for stage 1\n"
            "  stage 1: 'mb1.S1.fwd.p0' (compute0) waits for 'mb1.S1.fwd.receive' (receive_previous)\n"
            "  stage 1: 'mb1.S1.fwd.receive' (receive_previous) waits for stage 0\n"
            "  stage 1: 'mb0.S1.bwd.send' (send_previous) waits for 'mb0.S1.bwd.input.p0' (compute0)");
}

TEST(SimulateTogether, RefusesOtherNumbersOfPlansAndMessages) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2}), longer({.stages = 2, .micro_batches = 3});
  std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_gpipe);
  EXPECT_THROW((void)simulate(pointers_to(plans), toy.costs(), {}, joint_options(graph::Grid{})), std::logic_error);
  plans[1] = pipeline_plans(longer, testing::units_of_gpipe)[1];
  EXPECT_THROW((void)simulate(pointers_to(plans), {{toy.costs()[0], longer.costs()[1]}}, {}, joint_options(toy.grid())),
               std::logic_error);
}

}  // namespace
}  // namespace weft::simulate
