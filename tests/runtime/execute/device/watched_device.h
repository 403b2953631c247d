// An executor whose device is asked during a capture, as a watchdog's thread may do.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "runtime/execute/device/device_team.h"

namespace weft::testing {

/// An executor of ranks that share a device, whose steps are replayed. `make_device`: takes a function to be called
/// when all of a capture is recorded, before it ends; `looks` counts a watchdog's queries there.
inline std::unique_ptr<execute::Executor> watched_executor(
    comm::World& world, const execute::State& state, const graph::Grid& grid,
    const std::function<std::unique_ptr<execute::Device>(std::function<void()> look)>& make_device, int& looks) {
  auto asked = std::make_shared<std::function<void()>>();
  auto team = execute::make_team(world, [&] {
    const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 2, .graphs = true};
    return std::make_shared<execute::DeviceTeam>(make_device([asked] { (*asked)(); }), world.size(), grid, options);
  });
  auto executor = execute::make_device_executor(std::move(team), world, state);
  if (world.rank() == 0) {
    *asked = [watched = executor.get(), &looks] {
      watched->status();
      watched->describe();
      ++looks;
    };
  }
  return executor;
}

}  // namespace weft::testing
