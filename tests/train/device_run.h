// Runs on fake devices, which compute by the CPU's kernels in an order that a seed picks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/execute/device/device_team.h"
#include "runtime/execute/device/transport.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/train/grid_run.h"

namespace weft::testing {

/// Ranks that share a fake device. `kept`: gets the team, which outlives the run there.
inline execute::MakeExecutor sharing_a_fake(const graph::Grid& grid, const FakeDeviceOptions& device,
                                            const execute::DeviceExecutorOptions& options,
                                            std::shared_ptr<execute::DeviceTeam>* kept = nullptr) {
  return [=](comm::World& world, const execute::State& state) {
    auto team = execute::make_team(world, [&] {
      return std::make_shared<execute::DeviceTeam>(make_fake_device(device), world.size(), grid, options);
    });
    if (kept != nullptr && world.rank() == 0) *kept = team;
    return execute::make_device_executor(std::move(team), world, state);
  };
}

inline GridRun on_fake(GridRun run, std::uint64_t seed, bool graphs = false) {
  const execute::DeviceExecutorOptions options{.kept_steps = seed % 2 == 0 ? 1 : 0,
                                               .trace_every = 2,
                                               .graphs = graphs,
                                               .state_piece_bytes = seed % 3 == 0 ? 1000 : 1 << 20};
  run.make_executor = sharing_a_fake(run.step.grid, {.seed = seed}, options);
  return run;
}

/// The calls of a fake device in a run that traces every fourth step.
inline FakeDeviceCounts counts_of(GridRun run, bool graphs = false) {
  std::shared_ptr<execute::DeviceTeam> kept;
  run.make_executor = sharing_a_fake(
      run.step.grid, {.seed = 11},
      {.kept_steps = 1, .trace_every = 4, .graphs = graphs, .long_step_ns = std::int64_t{1} << 60}, &kept);
  const GridOutcome outcome = run_grid(run);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return dynamic_cast<FakeDevice&>(*kept->device).counts();
}

/// Every rank with a fake device of its own, and collectives through the host.
inline GridRun on_own_fakes(GridRun run, std::uint64_t seed) {
  run.make_executor = [grid = run.step.grid, seed](comm::World& world, const execute::State& state) {
    const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 2};
    auto team = std::make_shared<execute::DeviceTeam>(
        make_fake_device({.seed = seed + 1000 * static_cast<std::uint64_t>(world.rank())}), 1, grid, options,
        execute::make_staged_transport(world, grid));
    return execute::make_device_executor(std::move(team), world, state);
  };
  return run;
}

}  // namespace weft::testing
