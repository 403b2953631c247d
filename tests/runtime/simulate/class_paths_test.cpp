#include "runtime/simulate/class_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "runtime/plan/checker.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::simulate {
namespace {

using testing::Draws;
using testing::pipeline_plans;
using testing::PipelineShape;
using testing::PipelineToy;
using testing::pointers_to;

std::vector<int> links_apart() {
  std::vector<int> links;
  for (std::size_t i = 0; i < graph::kAxisChannels; ++i) links.push_back(static_cast<int>(i));
  return links;
}

Bounds bounds_of_toy(const PipelineToy& toy, const std::vector<int>& links = links_apart()) {
  return lower_bounds(toy.classes(), toy.costs(), {}, 1, links);
}

TEST(ClassBounds, OneStageHasTheBoundsOfItsGraph) {
  const PipelineToy toy({.stages = 1, .micro_batches = 3, .update = 10, .pieces = 2});
  const Bounds bounds = bounds_of_toy(toy);
  EXPECT_EQ(bounds.critical_path, graph::critical_path(*toy.classes()[0], toy.costs()[0].ns).length);
  EXPECT_EQ(bounds.work, 9010);
  EXPECT_EQ(bounds.best(), 9010);
}

TEST(ClassBounds, WarmUpAndTailGoThroughOtherStages) {
  for (const std::int64_t stages : {2, 4, 8}) {
    const PipelineToy toy(
        {.stages = stages, .micro_batches = 5, .forward = 1000, .input = 900, .weight = 700, .message = 50});
    const auto before = static_cast<double>(stages - 1);
    const Bounds step = bounds_of_toy(toy);
    const std::vector<Bounds> bounds = bounds_by_class(toy.classes(), toy.costs(), {}, 1, links_apart());
    // Down, up, and then the gradients of weights, which are added up in order.
    EXPECT_EQ(step.critical_path, 1000 + before * 1050 + before * 950 + 5 * 700) << stages;
    EXPECT_EQ(bounds.front().work, 5 * 2600);
    // All work of the last stage, whose gradients of weights can fill its tail, or what its tail has to wait for.
    const double last = std::max(before * 1050 + 5 * 2600, before * 1050 + 5 * 1900 + before * 950);
    EXPECT_EQ(bounds.back().one_machine, last);
    EXPECT_EQ(step.best(), last);
  }
}

TEST(ClassBounds, AreReachedBy1F1BWhereTheBackwardWorkIsOneTask) {
  for (const std::int64_t stages : {2, 3, 4, 8}) {
    for (const std::int64_t micro_batches : {8, 20}) {
      const PipelineToy toy({.stages = stages, .micro_batches = micro_batches, .input = 2000, .weight = 0});
      const std::vector<plan::Plan> plans =
          pipeline_plans(toy, [](auto& t, std::int64_t rank) { return units_of_1f1b(t, rank); });
      SimulationOptions options;
      options.grid = toy.grid();
      options.link_of_channel = links_apart();
      const double step = simulate(pointers_to(plans), toy.costs(), {}, options).step_ns;
      EXPECT_EQ(step, static_cast<double>(micro_batches + stages - 1) * 3000);
      EXPECT_EQ(bounds_of_toy(toy).best(), step);
    }
  }
}

TEST(ClassBounds, ALongestPathIsToldByStage) {
  const PipelineToy toy({.stages = 2, .micro_batches = 1, .message = 5000});
  const std::vector<graph::CriticalPath> paths =
      critical_paths(toy.classes(), graph::Meetings(toy.classes()), toy.costs());
  const auto names = [&](std::size_t stage) {
    std::vector<std::string> found;
    for (const graph::TaskId task : paths[stage].tasks) found.push_back(toy.classes()[stage]->task(task).name);
    return found;
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(paths[0].length, 14000);
  EXPECT_EQ(paths[1].length, 14000);
  EXPECT_EQ(names(0),
            (Strings{"mb0.S0.fwd.p0", "mb0.S0.fwd.send", "mb0.S0.bwd.receive", "mb0.S0.bwd.input.p0", "S0.update.p0"}));
  EXPECT_EQ(names(1), (Strings{"mb0.S1.fwd.receive", "mb0.S1.fwd.p0", "mb0.S1.bwd.input.p0", "mb0.S1.bwd.send"}));
}

// A middle stage sends an activation and a gradient for each micro-batch, and receives both.
TEST(ClassBounds, DirectionsOfALinkAreToldApart) {
  const PipelineToy toy({.stages = 3, .micro_batches = 10, .forward = 1, .input = 1, .weight = 1, .message = 1000});
  const double one_link = bounds_of_toy(toy, std::vector<int>(graph::kAxisChannels, 0)).work;
  EXPECT_EQ(one_link, 20 * 1000);
  EXPECT_EQ(bounds_of_toy(toy).work, 10 * 1000);
}

/// A random order of all classes at once, in which both ends of a message and all members of a collective are placed
/// together: it can't deadlock.
std::vector<plan::Plan> random_plans(const PipelineToy& toy, Draws& draws) {
  const std::size_t stages = toy.classes().size();
  std::vector<plan::Order> orders(stages);
  std::vector<std::vector<bool>> placed(stages);
  std::vector<std::size_t> left;
  for (std::size_t k = 0; k < stages; ++k) {
    orders[k].streams = plan::streams_of(*toy.classes()[k], 1);
    orders[k].reasons = {plan::Reason{}};
    placed[k].resize(toy.classes()[k]->tasks().size());
    left.push_back(placed[k].size());
  }
  const auto ready = [&](std::size_t k, std::size_t task) {
    for (const graph::Edge& edge : toy.classes()[k]->in_edges(graph::TaskId(task))) {
      if (edge.distance == 0 && !placed[k][edge.from.index()]) return false;
    }
    return !placed[k][task];
  };
  const auto place = [&](std::size_t k, std::size_t task) {
    const graph::Channel* channel = graph::channel_of(toy.classes()[k]->tasks()[task].operation);
    placed[k][task] = true;
    --left[k];
    orders[k].sequence.push_back(
        {graph::TaskId(task),
         channel == nullptr ? plan::StreamId(std::size_t{0}) : plan::stream_of_channel(orders[k].streams, *channel),
         0});
  };
  while (std::ranges::any_of(left, [](std::size_t n) { return n > 0; })) {
    const auto k = static_cast<std::size_t>(draws.below(stages));
    const auto first = static_cast<std::size_t>(draws.below(placed[k].size()));
    for (std::size_t i = 0; i < placed[k].size(); ++i) {
      const std::size_t task = (first + i) % placed[k].size();
      const graph::Task& chosen = toy.classes()[k]->tasks()[task];
      if (!ready(k, task) || std::holds_alternative<graph::Receive>(chosen.operation)) continue;
      if (!graph::is_collective(chosen.operation)) {
        place(k, task);
        break;
      }
      std::vector<std::pair<std::size_t, std::size_t>> members;
      for (std::size_t other = 0; other < stages; ++other) {
        const std::span<const graph::Task> tasks = toy.classes()[other]->tasks();
        for (std::size_t j = 0; j < tasks.size(); ++j) {
          const auto* send = std::get_if<graph::Send>(&chosen.operation);
          const auto* receive = std::get_if<graph::Receive>(&tasks[j].operation);
          const bool pairs = send != nullptr && receive != nullptr && receive->message == send->message &&
                             receive->channel == graph::other_end(send->channel) &&
                             graph::peer_stage(send->channel, static_cast<std::int64_t>(k),
                                               static_cast<std::int64_t>(stages)) == static_cast<std::int64_t>(other);
          if (pairs || (send == nullptr && tasks[j].name == chosen.name)) members.emplace_back(other, j);
        }
      }
      if (!std::ranges::all_of(members, [&](const auto& m) { return ready(m.first, m.second); })) continue;
      if (std::holds_alternative<graph::Send>(chosen.operation)) place(k, task);
      for (const auto& [other, j] : members) place(other, j);
      break;
    }
  }
  std::vector<plan::Plan> plans;
  for (std::size_t k = 0; k < stages; ++k) plans.push_back(plan::make_plan(toy.classes()[k], orders[k], "random"));
  return plans;
}

TEST(ClassBounds, NoRandomOrderIsShorter) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Draws draws(seed);
    const auto cost = [&] { return static_cast<double>(draws.between(0, 30)); };
    PipelineShape shape;
    shape.stages = draws.between(1, 4);
    shape.micro_batches = draws.between(1, 4);
    shape.chunks.chunks = draws.between(1, 2);
    shape.chunks.placement = draws.chance(50) ? graph::ChunkPlacement::v : graph::ChunkPlacement::loop;
    shape.forward = cost();
    shape.input = cost();
    shape.weight = cost();
    shape.message = cost();
    shape.collective = cost();
    shape.world = draws.chance(50);
    shape.embedding = draws.chance(50);
    const PipelineToy toy(shape);
    const std::vector<plan::Plan> plans = random_plans(toy, draws);
    for (const plan::Violation& violation : plan::check(pointers_to(plans))) ADD_FAILURE() << violation.message;
    SimulationOptions options;
    options.grid = toy.grid();
    options.link_of_channel = draws.chance(50) ? links_apart() : std::vector<int>(graph::kAxisChannels, 0);
    cost::Machine machine;
    machine.slowdowns = {{"add", "send", 1.5}, {"add", "receive", 1.2}};
    std::vector<cost::TaskCosts> costs = toy.costs();
    machine.cores = 2;
    machine.shared_cores = draws.chance(50);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      costs[k].link_ns = costs[k].ns;
      for (std::size_t i = 0; i < costs[k].ns.size(); ++i) {
        if (!graph::is_collective(toy.classes()[k]->tasks()[i].operation)) continue;
        costs[k].link_ns[i] *= 0.7;
        costs[k].cpu_ns[i] = 0.5 * shape.message;
      }
    }
    const double bound = lower_bounds(toy.classes(), costs, machine, 1, options.link_of_channel).best();
    const double step = simulate(pointers_to(plans), costs, machine, options).step_ns;
    EXPECT_LE(bound, step * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(ClassBounds, RefusesOtherCosts) {
  const PipelineToy toy({.stages = 2}), other({.stages = 2, .micro_batches = 3});
  EXPECT_THROW((void)lower_bounds(toy.classes(), other.costs(), {}, 1, links_apart()), std::logic_error);
  EXPECT_THROW((void)lower_bounds(toy.classes(), {}, {}, 1, links_apart()), std::logic_error);
}

}  // namespace
}  // namespace weft::simulate
