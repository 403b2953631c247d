#include "train/launch_run.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"
#include "train/device_choice.h"
#include "train/rank_agreement.h"

namespace weft {

int run_on_ranks(RunConfig config, const std::function<int(World&, const RunConfig&)>& body,
                 const AdjustConfig& adjust) {
  if (!launched_by_mpi()) {
    if (adjust) adjust(config, std::max(config.ranks, config.grid.ranks()));
    resolve(config, 0);
    check_communicator(config, /*launched_by_mpi=*/false);
    return run_ranks(static_cast<int>(config.grid.ranks()), [&](World& world) { return body(world, config); });
  }
  return run_mpi([&](World& world) {
    expect_same_build(world);
    expect_same_config(world, config);
    if (adjust) adjust(config, world.size());
    resolve(config, world.size());
    check_communicator(config, /*launched_by_mpi=*/true);
    const auto* text = reinterpret_cast<const std::byte*>(config.run_dir.data());
    std::vector<std::byte> run_dir(text, text + config.run_dir.size());
    world.broadcast(run_dir, 0);
    config.run_dir.assign(reinterpret_cast<const char*>(run_dir.data()), run_dir.size());
    return body(world, config);
  });
}

}  // namespace weft
