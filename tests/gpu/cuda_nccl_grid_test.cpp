// Grids of ranks with a GPU each, in one process, whose collectives are NCCL's. Skipped where there are too few GPUs.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/cuda/nccl_transport.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"

namespace weft {
namespace {

GridRun on_gpus(GridRun run, bool graphs = false) {
  run.make_executor = [grid = run.step.grid, graphs](World& world, const State& state) {
    const DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 4, .graphs = graphs};
    auto device = make_cuda_device(world.rank());
    auto transport = make_nccl_transport(world, grid, *device);
    auto team = std::make_shared<DeviceTeam>(std::move(device), 1, grid, options, std::move(transport));
    return std::make_unique<DeviceExecutor>(std::move(team), world, state);
  };
  return run;
}

void expect_near(const GridOutcome& actual, const GridOutcome& expected, double tolerance) {
  ASSERT_EQ(actual.exit_code, 0) << actual.errors;
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < actual.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i], expected.losses[i], tolerance * expected.losses[i]) << "step " << i;
  }
}

class CudaNcclGrid : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    constexpr std::size_t kRanks = 8;
    const std::size_t found = report_devices().devices.size();
    if (found < kRanks) GTEST_SKIP() << "needs " << kRanks << " GPUs, found " << found;
  }
};

// Sums go around rings, so they are the local ones but for rounding.
TEST_F(CudaNcclGrid, LossesAreThoseOfOneGpu) {
  for (const Family family : {Family::gpt2, Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const GridOutcome serial = run_grid(on_gpu(small_run(family, dtype, {})));
      for (const Grid& grid : {grid_of(2, 2, 2, 1), grid_of(1, 1, 1, 4)}) {
        SCOPED_TRACE(std::string(to_string(family)) + " " + std::string(to_string(dtype)) + " " + to_string(grid));
        expect_near(run_grid(on_gpus(small_run(family, dtype, grid))), serial, dtype == DType::bf16 ? 5e-3 : 1e-5);
      }
    }
  }
}

TEST_F(CudaNcclGrid, SchedulesDontChangeBits) {
  const GridRun run = small_run(Family::gpt2, DType::bf16, grid_of(2, 1, 2, 1));
  const GridOutcome first = run_grid(on_gpus(run));
  expect_equal_under_policies(on_gpus(run), first);
  expect_equal(run_grid(on_gpus(run, true)), first);
}

TEST_F(CudaNcclGrid, ALostRankEndsTheRun) {
  expect_a_lost_rank_ends(on_gpus(small_run(Family::gpt2, DType::f32, grid_of(1, 2, 1, 2))));
}

}  // namespace
}  // namespace weft
