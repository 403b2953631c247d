// Small training runs for tests on a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/execute/device/device_team.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/device/transport.h"
#include "tests/gpu/gpu_test.h"
#include "tests/train/grid_run.h"

namespace weft::testing {

inline GridRun small_run(ops::Family family, DType dtype, const graph::Grid& grid) {
  const bool llama = family == ops::Family::llama;
  GridRun run;
  constexpr std::int64_t size = kEmulated ? 1 : 2;
  run.model = of_family(
      family, {.hidden = 32 * size, .ffn = (llama ? 48 : 128) * size, .vocab = 60 * size, .context = 16 * size});
  run.model.tied = true;
  run.step.seq_len = run.model.context;
  run.step.dtype = dtype;
  run.step.grid = grid;
  run.step.micro_batches = 2;
  run.step.micro_batch = 4 / grid.batch_ranks();
  run.step.dropout = 0.1F;
  run.steps = kEmulated ? 3 : 10;
  run.warmup = 4;
  return run;
}

/// A run whose ranks share the GPU in one process.
inline GridRun on_gpu(GridRun run, bool graphs = false) {
  const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 4, .graphs = graphs};
  run.make_executor = [grid = run.step.grid, options](comm::World& world, const execute::State& state) {
    auto team = execute::make_team(world, [&] {
      return std::make_shared<execute::DeviceTeam>(execute::make_cuda_device(0), world.size(), grid, options);
    });
    return execute::make_device_executor(std::move(team), world, state);
  };
  return run;
}

using MakeTransport =
    std::function<std::unique_ptr<execute::DeviceTransport>(comm::World&, const graph::Grid&, execute::Device&)>;

/// A run whose ranks have teams of their own. `ordinal`: of the GPU that they share; without it, each has its own.
inline GridRun in_own_teams(GridRun run, const execute::DeviceExecutorOptions& options, std::optional<int> ordinal,
                            const MakeTransport& make_transport) {
  run.make_executor = [=, grid = run.step.grid](comm::World& world, const execute::State& state) {
    auto device = execute::make_cuda_device(ordinal.value_or(world.rank()));
    auto transport = make_transport(world, grid, *device);
    auto team = std::make_shared<execute::DeviceTeam>(std::move(device), 1, grid, options, std::move(transport));
    return execute::make_device_executor(std::move(team), world, state);
  };
  return run;
}

/// A run whose ranks share the GPU and know nothing of each other's streams: collectives go through the host.
inline GridRun on_gpu_staged(const GridRun& run) {
  return in_own_teams(run, {.kept_steps = 1, .trace_every = 4}, 0,
                      [](comm::World& world, const graph::Grid& grid, execute::Device&) {
                        return execute::make_staged_transport(world, grid);
                      });
}

/// A run whose ranks have a GPU each, or processes of their own that share the first one, with NCCL's collectives.
inline GridRun on_gpus(const GridRun& run, const execute::DeviceExecutorOptions& options,
                       std::optional<int> ordinal = std::nullopt, const execute::NcclSettings& settings = {}) {
  return in_own_teams(run, options, ordinal,
                      [settings](comm::World& world, const graph::Grid& grid, execute::Device& device) {
                        return execute::make_nccl_transport(world, grid, device, {}, settings);
                      });
}
inline GridRun on_gpus(const GridRun& run, bool graphs = false, bool share_a_gpu = false,
                       const execute::NcclSettings& settings = {}) {
  const execute::DeviceExecutorOptions options{
      .kept_steps = 1, .trace_every = 4, .graphs = graphs, .group_gathers = settings.grouped_gathers};
  return on_gpus(run, options, share_a_gpu ? std::optional(0) : std::nullopt, settings);
}

/// Expects that both runs ended well, with losses that differ by at most `tolerance` times the expected losses.
inline void expect_near(const GridOutcome& actual, const GridOutcome& expected, double tolerance) {
  ASSERT_EQ(actual.exit_code, 0) << actual.errors;
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  expect_near(actual.losses, expected.losses, tolerance, "loss");
}

}  // namespace weft::testing
