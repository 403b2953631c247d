// Training steps on the GPU: against the CPU's, on several grids of ranks that share the GPU, under other policies, and
// as one replayed graph.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/execute/device/watched_device.h"

namespace weft {
namespace {

class CudaGrid : public GpuTest {};

TEST_F(CudaGrid, LossesAreTheCpus) {
  for (const Family family : {Family::gpt2, Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(to_string(family)) + " " + std::string(to_string(dtype)));
      const GridRun run = small_run(family, dtype, {});
      const GridOutcome cpu = run_grid(run), gpu = run_grid(on_gpu(run));
      expect_near(gpu, cpu, dtype == DType::bf16 ? 3e-3 : 1e-5);
      for (const auto& [name, values] : cpu.arrays) {
        // A key's bias has no gradient but rounding errors, which AdamW makes as large as any other.
        if (dtype == DType::bf16 && name.find("qkv.bias") != std::string::npos) continue;
        EXPECT_LT(relative_difference(gpu.arrays.at(name), values), dtype == DType::bf16 ? 0.2 : 2e-3) << name;
      }
    }
  }
}

TEST_F(CudaGrid, GridsThatShareTheGpu) {
  for (const Family family : {Family::gpt2, Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (kEmulated && (family == Family::gpt2) != (dtype == DType::bf16)) continue;  // half of them take long enough
      const GridOutcome serial = run_grid(on_gpu(small_run(family, dtype, {})));
      for (const Grid& grid : {grid_of(2, 1, 1, 1), grid_of(1, 2, 1, 1), grid_of(1, 1, 2, 1), grid_of(1, 1, 1, 2),
                               grid_of(2, 2, 1, 1), grid_of(1, 2, 2, 1), grid_of(2, 2, 2, 1)}) {
        SCOPED_TRACE(std::string(to_string(family)) + " " + std::string(to_string(dtype)) + " " + to_string(grid));
        expect_near(run_grid(on_gpu(small_run(family, dtype, grid))), serial, dtype == DType::bf16 ? 5e-3 : 1e-5);
      }
    }
  }
}

TEST_F(CudaGrid, SchedulesDontChangeBits) {
  const GridRun run = small_run(Family::gpt2, DType::bf16, grid_of(2, 1, 2, 1));
  const GridOutcome first = run_grid(on_gpu(run));
  for (const char* policy : {"serial", "axonn", "critical-path", "lhs", "random"}) {
    SCOPED_TRACE(policy);
    GridRun other = run;
    other.policy = policy;
    expect_equal(run_grid(on_gpu(other)), first);
  }
}

// Which products have an epilogue is the graph's business: the bits are those of every other schedule and rewrite of
// it.
TEST_F(CudaGrid, GeluInProducts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Grid& grid : {grid_of(1, 1, 1, 1), grid_of(1, 2, 1, 1)}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + to_string(grid));
      GridRun run = small_run(Family::gpt2, dtype, grid);
      const GridOutcome plain = run_grid(on_gpu(run));
      run.rewrites = "fuse-gelu";
      const GridOutcome fused = run_grid(on_gpu(run));
      expect_near(fused, plain, dtype == DType::bf16 ? 3e-3 : 1e-5);
      expect_equal(run_grid(on_gpu(run, true)), fused);
      run.policy = "lhs";
      run.rewrites = "fuse-gelu;recompute";
      expect_equal(run_grid(on_gpu(run)), fused);
    }
  }
}

TEST_F(CudaGrid, AGraphReplaysTheSameBits) {
  for (const Grid& grid : {grid_of(1, 1, 1, 1), grid_of(1, 2, 1, 2)}) {
    SCOPED_TRACE(to_string(grid));
    const GridRun run = small_run(Family::gpt2, DType::bf16, grid);
    expect_equal(run_grid(on_gpu(run, true)), run_grid(on_gpu(run)));
  }
}

TEST_F(CudaGrid, ALookDuringACaptureHarmsNothing) {
  const GridRun run = small_run(Family::gpt2, DType::bf16, grid_of(1, 1, 1, 2));
  int looks = 0;
  GridRun watched = run;
  watched.make_executor = [&](World& world, const State& state) {
    return testing::watched_executor(
        world, state, run.step.grid, [] { return make_cuda_device(0); }, looks);
  };
  expect_equal(run_grid(watched), run_grid(on_gpu(run)));
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace weft
