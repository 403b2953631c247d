// Training steps on the GPU compared with the CPU's: on several grids of ranks that share the GPU, with other policies,
// and as one replayed CUDA graph.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "runtime/execute/cuda/cuda_device.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/execute/device/watched_device.h"

namespace weft {
namespace {

class CudaGrid : public testing::GpuTest {};

TEST_F(CudaGrid, LossesAreTheCpus) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(ops::to_string(family)) + " " + std::string(to_string(dtype)));
      const testing::GridRun run = testing::small_run(family, dtype, {});
      const testing::GridOutcome cpu = testing::run_grid(run), gpu = testing::run_grid(testing::on_gpu(run));
      testing::expect_near(gpu, cpu, dtype == DType::bf16 ? 3e-3 : 1e-5);
      for (const auto& [name, values] : cpu.arrays) {
        // The gradient of a key's bias consists only of rounding errors, which AdamW scales up like any gradient.
        if (dtype == DType::bf16 && name.find("qkv.bias") != std::string::npos) continue;
        EXPECT_LT(testing::relative_difference(gpu.arrays.at(name), values), dtype == DType::bf16 ? 0.2 : 2e-3) << name;
      }
    }
  }
}

TEST_F(CudaGrid, GridsThatShareTheGpu) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (testing::kEmulated && (family == ops::Family::gpt2) != (dtype == DType::bf16))
        continue;  // half of them take long enough
      const testing::GridOutcome serial = testing::run_grid(testing::on_gpu(testing::small_run(family, dtype, {})));
      for (const graph::Grid& grid :
           {graph::Grid{2, 1, 1, 1}, graph::Grid{1, 2, 1, 1}, graph::Grid{1, 1, 2, 1}, graph::Grid{1, 1, 1, 2},
            graph::Grid{2, 2, 1, 1}, graph::Grid{1, 2, 2, 1}, graph::Grid{2, 2, 2, 1}}) {
        SCOPED_TRACE(std::string(ops::to_string(family)) + " " + std::string(to_string(dtype)) + " " +
                     graph::to_string(grid));
        testing::expect_near(testing::run_grid(testing::on_gpu(testing::small_run(family, dtype, grid))), serial,
                             dtype == DType::bf16 ? 5e-3 : 1e-5);
      }
    }
  }
}

// What lies between products is cut by rows: over y, over x, and over both.
TEST_F(CudaGrid, SequenceParallelGridsThatShareTheGpu) {
  for (const auto& [family, dtype] :
       {std::pair(ops::Family::gpt2, DType::bf16), std::pair(ops::Family::llama, DType::f32)}) {
    const testing::GridOutcome serial = testing::run_grid(testing::on_gpu(testing::small_run(family, dtype, {})));
    for (const graph::Grid& grid : {graph::Grid{1, 2, 1, 1}, graph::Grid{2, 1, 1, 1}, graph::Grid{2, 2, 1, 1}}) {
      SCOPED_TRACE(std::string(ops::to_string(family)) + " " + std::string(to_string(dtype)) + " " +
                   graph::to_string(grid));
      testing::GridRun run = testing::small_run(family, dtype, grid);
      run.step.sequence_parallel = true;
      const testing::GridOutcome found = testing::run_grid(testing::on_gpu(run));
      testing::expect_near(found, serial, dtype == DType::bf16 ? 5e-3 : 1e-5);
      if (grid.y == 1 || (testing::kEmulated && grid.x > 1)) continue;
      testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), found);
      run.policy = "lhs";
      testing::expect_equal(testing::run_grid(testing::on_gpu(run)), found);
    }
  }
}

// Ranks that share sequences: cut positions, masks of cut rows, and an all-to-all of several parts.
TEST_F(CudaGrid, ContextsThatShareTheGpu) {
  for (const auto& [family, dtype, grid] :
       {std::tuple(ops::Family::llama, DType::f32, graph::Grid{.z = 2, .context = 2}),
        std::tuple(ops::Family::gpt2, DType::bf16, graph::Grid{.z = 2, .context = 2}),
        std::tuple(ops::Family::llama, DType::f32, graph::Grid{.z = 4, .context = 2})}) {
    SCOPED_TRACE(std::string(ops::to_string(family)) + " " + graph::to_string(grid));
    testing::GridRun run = testing::small_run(family, dtype, grid);
    const testing::GridOutcome found = testing::run_grid(testing::on_gpu(run));
    testing::expect_near(found, testing::run_grid(run), dtype == DType::bf16 ? 5e-3 : 1e-5);
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), found);
    if (testing::kEmulated && grid.z == 4) continue;
    testing::expect_equal(testing::run_grid(testing::on_gpu_staged(run)), found);
    testing::expect_equal_under_policies(testing::on_gpu(run), found, {"serial", "lhs"});
  }
}

TEST_F(CudaGrid, SchedulesDontChangeBits) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{2, 1, 2, 1});
  const testing::GridOutcome first = testing::run_grid(testing::on_gpu(run));
  testing::expect_equal_under_policies(testing::on_gpu(run), first,
                                       {"serial", "axonn", "fsdp", "critical-path", "lhs", "random"});
}

// The graph decides which products have an epilogue, so the bits are equal for all its schedules and rewrites.
TEST_F(CudaGrid, GeluInProducts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const graph::Grid& grid : {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 2, 1, 1}}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + graph::to_string(grid));
      testing::GridRun run = testing::small_run(ops::Family::gpt2, dtype, grid);
      const testing::GridOutcome plain = testing::run_grid(testing::on_gpu(run));
      run.rewrites = "fuse-gelu";
      const testing::GridOutcome fused = testing::run_grid(testing::on_gpu(run));
      testing::expect_near(fused, plain, dtype == DType::bf16 ? 3e-3 : 1e-5);
      testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), fused);
      run.policy = "lhs";
      run.rewrites = "fuse-gelu;recompute";
      testing::expect_equal(testing::run_grid(testing::on_gpu(run)), fused);
    }
  }
}

// β = 1 in the products of a branch's end, which round once less. Sums over x or y stay between product and residual.
TEST_F(CudaGrid, ResidualsInProducts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    testing::GridRun run = testing::small_run(ops::Family::gpt2, dtype, {});
    run.step.dropout = 0;
    const testing::GridOutcome plain = testing::run_grid(testing::on_gpu(run));
    run.rewrites = "fuse-residual";
    const testing::GridOutcome fused = testing::run_grid(testing::on_gpu(run));
    testing::expect_near(fused, plain, dtype == DType::bf16 ? 3e-3 : 1e-5);
    if (dtype == DType::bf16) {
      EXPECT_NE(fused.arrays, plain.arrays);
    }
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), fused);
    run.policy = "lhs";
    run.rewrites = "fuse-residual;recompute";
    testing::expect_equal(testing::run_grid(testing::on_gpu(run)), fused);
  }
}

// Weight gradients sum the biases', in another order than kernels after them.
TEST_F(CudaGrid, BiasGradientsInProducts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    testing::GridRun run = testing::small_run(ops::Family::gpt2, dtype, {});
    const testing::GridOutcome plain = testing::run_grid(testing::on_gpu(run));
    run.rewrites = "fuse-bias-gradient";
    const testing::GridOutcome fused = testing::run_grid(testing::on_gpu(run));
    testing::expect_near(fused, plain, 1e-5);
    EXPECT_NE(fused.arrays, plain.arrays);
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), fused);
    run.policy = "lhs";
    run.rewrites = "fuse-bias-gradient;recompute";
    testing::expect_equal(testing::run_grid(testing::on_gpu(run)), fused);
  }
}

TEST_F(CudaGrid, AGraphReplaysTheSameBits) {
  for (const graph::Grid& grid : {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 2, 1, 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, grid);
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), testing::run_grid(testing::on_gpu(run)));
  }
}

class WatchedGpu final : public execute::CudaDevice {
 public:
  explicit WatchedGpu(std::function<void()> look) : CudaDevice(0), look_(std::move(look)) {}
  execute::DeviceGraph end_capture(execute::DeviceStream origin) override {
    look_();
    return CudaDevice::end_capture(origin);
  }

 private:
  std::function<void()> look_;
};

TEST_F(CudaGrid, ALookDuringACaptureHarmsNothing) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{1, 1, 1, 2});
  int looks = 0;
  testing::GridRun watched = run;
  watched.make_executor = [&](comm::World& world, const execute::State& state) {
    return testing::watched_executor(
        world, state, run.step.grid, [](auto look) { return std::make_unique<WatchedGpu>(look); }, looks);
  };
  testing::expect_equal(testing::run_grid(watched), testing::run_grid(testing::on_gpu(run)));
  EXPECT_EQ(looks, 2);
}

}  // namespace
}  // namespace weft
