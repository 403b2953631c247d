#include "runtime/simulate/class_paths.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/bounds.h"
#include "runtime/simulate/simulator.h"
#include "tests/runtime/links.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::simulate {
namespace {

using testing::Draws;
using testing::pipeline_plans;
using testing::PipelineShape;
using testing::PipelineToy;
using testing::pointers_to;

Bounds bounds_of_toy(const PipelineToy& toy, const std::vector<int>& links = testing::own_links()) {
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
    // Down, up, and then the gradients of weights, which are added up in order.
    EXPECT_EQ(step.critical_path, 1000 + before * 1050 + before * 950 + 5 * 700) << stages;
    EXPECT_EQ(step.work, 5 * 2600);
    // All work of the last stage, as gradients of weights can fill its tail, or the messages that its tail waits for.
    const double last = std::max(before * 1050 + 5 * 2600, before * 1050 + 5 * 1900 + before * 950);
    EXPECT_EQ(step.one_machine, last);
    EXPECT_EQ(step.best(), last);
  }
}

TEST(ClassBounds, AreReachedBy1F1BWhereTheBackwardWorkIsOneTask) {
  for (const std::int64_t stages : {2, 3, 4, 8}) {
    for (const std::int64_t micro_batches : {8, 20}) {
      const PipelineToy toy({.stages = stages, .micro_batches = micro_batches, .input = 2000, .weight = 0});
      const std::vector<plan::Plan> plans = pipeline_plans(toy, testing::units_of_1f1b);
      SimulationOptions options;
      options.grid = toy.grid();
      options.link_of_channel = testing::own_links();
      const double step = simulate(pointers_to(plans), toy.costs(), {}, options).step_ns;
      EXPECT_EQ(step, static_cast<double>(micro_batches + stages - 1) * 3000);
      EXPECT_EQ(bounds_of_toy(toy).best(), step);
    }
  }
}

TEST(ClassBounds, HeadsGoOverMessages) {
  const PipelineToy toy({.stages = 2, .micro_batches = 1, .message = 5000});
  const std::vector<graph::CriticalPath> paths =
      critical_paths(toy.classes(), graph::Meetings(toy.classes()), toy.costs());
  EXPECT_EQ(paths[0].length, 14000);
  EXPECT_EQ(paths[1].length, 14000);
  const auto head = [&](std::size_t stage, const char* task) {
    return paths[stage].head[toy.classes()[stage]->find_task(task).index()];
  };
  EXPECT_EQ(head(0, "mb0.S0.fwd.send"), 1000);
  EXPECT_EQ(head(1, "mb0.S1.fwd.receive"), 1000);
  EXPECT_EQ(head(1, "mb0.S1.bwd.send"), 8000);
  EXPECT_EQ(head(0, "S0.update.p0"), 14000);
}

// A middle stage sends an activation and a gradient for each micro-batch, and receives both.
TEST(ClassBounds, DirectionsOfALinkAreToldApart) {
  const PipelineToy toy({.stages = 3, .micro_batches = 10, .forward = 1, .input = 1, .weight = 1, .message = 1000});
  const double one_link = bounds_of_toy(toy, std::vector<int>(graph::kAxisChannels, 0)).work;
  EXPECT_EQ(one_link, 20 * 1000);
  EXPECT_EQ(bounds_of_toy(toy).work, 10 * 1000);
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
    const std::vector<plan::Plan> plans =
        policy::compile(toy.classes(), *policy::make_policy("random"), {.seed = seed});
    for (const plan::Violation& violation : plan::check(pointers_to(plans))) ADD_FAILURE() << violation.message;
    SimulationOptions options;
    options.grid = toy.grid();
    options.link_of_channel = draws.chance(50) ? testing::own_links() : std::vector<int>(graph::kAxisChannels, 0);
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

}  // namespace
}  // namespace weft::simulate
