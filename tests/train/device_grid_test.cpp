// The device executor on the fake device: every policy, three grids, many interleavings of concurrent work. The bits
// are the CPU executor's, no byte is touched without an order, and no stream waits for ever.
#include <gtest/gtest.h>

#include "runtime/execute/device/device_executor.h"
#include "runtime/policy/policy.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/execute/device/watched_device.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/device_run.h"

namespace weft::train {
namespace {

// The seed's order goes on from step to step, so every step is another interleaving.
constexpr int kInterleavings = 100;

testing::GridRun tiny_run(const graph::Grid& grid, std::int64_t steps) {
  testing::GridRun run = testing::narrow_run(grid);
  run.step.micro_batches = 2;
  run.steps = steps;
  run.warmup = 1;
  return run;
}

/// Under every policy: the bits of the CPU, where `on` runs it on devices with one seed after the other.
void expect_bits_of_the_cpu(testing::GridRun run,
                            const std::function<testing::GridRun(const testing::GridRun&, std::uint64_t seed)>& on) {
  const testing::GridOutcome cpu = testing::run_grid(run);
  std::uint64_t seed = 1;
  for (const std::string& policy : testing::quick_graph_policies()) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    testing::expect_equal(testing::run_grid(on(run, ++seed)), cpu);
    if (::testing::Test::HasFailure()) return;
  }
}

testing::GridRun on_fake(const testing::GridRun& run, std::uint64_t seed) {
  return testing::on_fake(run, seed);
}
testing::GridRun on_fake_with_graphs(const testing::GridRun& run, std::uint64_t seed) {
  return testing::on_fake(run, seed, true);
}

class DeviceGrid : public ::testing::TestWithParam<graph::Grid> {};

TEST_P(DeviceGrid, EveryPolicyUnderManyInterleavings) {
  expect_bits_of_the_cpu(tiny_run(GetParam(), kInterleavings), on_fake);
}

TEST_P(DeviceGrid, ProductsWithEpilogues) {
  testing::GridRun run = tiny_run(GetParam(), 20);
  const testing::GridOutcome cpu = testing::run_grid(run);
  run.rewrites = "fuse-gelu";
  std::uint64_t seed = 1;
  for (const char* policy : {"program", "axonn", "lhs"}) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    testing::expect_equal(testing::run_grid(testing::on_fake(run, ++seed)), cpu);
    testing::expect_equal(testing::run_grid(testing::on_fake(run, ++seed, true)), cpu);
  }
}

TEST_P(DeviceGrid, ReplayedGraphs) {
  const testing::GridRun run = tiny_run(GetParam(), 5);
  const testing::GridOutcome cpu = testing::run_grid(run);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::expect_equal(testing::run_grid(testing::on_fake(run, seed, true)), cpu);
    if (HasFailure()) return;
  }
}

TEST_P(DeviceGrid, DevicesThatTalkThroughTheHost) {
  expect_bits_of_the_cpu(tiny_run(GetParam(), 10), testing::on_own_fakes);
}

TEST(DeviceMicroBatches, ScatteredOneByOneOnEveryExecutor) {
  testing::GridRun run = tiny_run({1, 1, 2, 2}, 10);
  run.step.gradient_reduction = ops::GradientReduction::micro_batch;
  expect_bits_of_the_cpu(run, on_fake);
  expect_bits_of_the_cpu(run, on_fake_with_graphs);
  expect_bits_of_the_cpu(run, testing::on_own_fakes);
}

TEST(DevicesThatTalkThroughTheHost, ALostRankEndsTheRun) {
  testing::expect_a_lost_rank_ends(testing::on_own_fakes(tiny_run(graph::Grid{2, 1, 1, 2}, 1), 1));
}

TEST_P(DeviceGrid, TheSteadyStateAllocatesNothingAndKeepsTheDeviceBusy) {
  for (const bool graphs : {false, true}) {
    const testing::FakeDeviceCounts few = testing::counts_of(tiny_run(GetParam(), 8), graphs),
                                    many = testing::counts_of(tiny_run(GetParam(), 16), graphs);
    EXPECT_EQ(many.allocations, few.allocations);
    EXPECT_EQ(many.events, few.events);
    EXPECT_EQ(many.synchronizations - few.synchronizations, 8);
    // Every fourth step is traced and runs task by task: it ends before the next is enqueued, and the previous step has
    // ended too.
    EXPECT_EQ(many.drains - few.drains, 4);
    EXPECT_EQ(many.graphs_launched - few.graphs_launched, graphs ? 6 : 0);
  }
}

TEST(DeviceGridWatched, ALookDuringACaptureHarmsNothing) {
  const testing::GridRun run = tiny_run(graph::Grid{1, 1, 1, 2}, 6);
  int looks = 0;
  testing::GridRun watched = run;
  watched.make_executor = [&](comm::World& world, const execute::State& state) {
    return testing::watched_executor(
        world, state, run.step.grid, [](auto look) { return testing::make_fake_device({.look = look}); }, looks);
  };
  testing::expect_equal(testing::run_grid(watched), testing::run_grid(run));
  EXPECT_EQ(looks, 1);
}

INSTANTIATE_TEST_SUITE_P(Grids, DeviceGrid,
                         ::testing::Values(graph::Grid{1, 1, 1, 1}, graph::Grid{2, 1, 1, 2}, graph::Grid{1, 2, 2, 1}),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace weft::train
