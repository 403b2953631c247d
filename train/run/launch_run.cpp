#include "train/run/launch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"
#include "train/run/rank_agreement.h"
#include "train/run/run_inputs.h"
#include "train/step/device_choice.h"

namespace weft::train {
namespace {

void check_thread_ranks(std::int64_t ranks) {
  constexpr std::int64_t kMost = 4096;
  if (ranks <= kMost) return;
  throw UserError(fmt::format("{} ranks as threads of one process", ranks), fmt::format("at most {}", kMost),
                  fmt::format("start them by mpirun -np {}; `weft simulate` and `weft search` need no ranks", ranks));
}

constexpr const char* kOrigin = "the chosen grid";  // of settings, in messages

/// Rank 0 chooses for all ranks. Collective over the world.
std::vector<Setting> choose_together(comm::World& world, const RunConfig& config, const ChooseGrid& choose) {
  std::string chosen;  // lines of a key, "=" and a value
  comm::act_together(world, [&] {
    if (world.rank() != 0) return;
    for (const Setting& each : choose(config, {world.size(), world.ranks_on_node()})) {
      chosen += each.key + '=' + each.value + '\n';
    }
  });
  std::istringstream lines(comm::text_of_rank_0(world, chosen));
  std::vector<Setting> settings;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    settings.push_back({line.substr(0, equals), line.substr(equals + 1), kOrigin});
  }
  return settings;
}

}  // namespace

int run_on_ranks(RunConfig config, const std::function<int(comm::World&, const ResolvedRun&)>& body,
                 const AdjustConfig& adjust, const ChooseGrid& choose) {
  const bool chooses = config.grid_auto && choose;
  if (!comm::launched_by_mpi()) {
    if (chooses) {
      const std::int64_t ranks = config.ranks > 0 ? config.ranks : config.grid.ranks();
      apply_settings(config, choose(config, {ranks, ranks}));
    }
    if (adjust) adjust(config, std::max(config.ranks, config.grid.ranks()));
    const ResolvedRun run = resolve(std::move(config), 0);
    check_thread_ranks(run.config.grid.ranks());
    check_communicator(run.config, /*launched_by_mpi=*/false);
    return comm::run_ranks(static_cast<int>(run.config.grid.ranks()),
                           [&](comm::World& world) { return body(world, run); });
  }
  return comm::run_mpi([&](comm::World& world) {
    expect_same_build(world);
    expect_same_kernels(world, cpu::kernel_level());
    agree_on_resumed(world, config);
    expect_same_config(world, config);
    if (chooses) apply_settings(config, choose_together(world, config, choose));
    ResolvedRun run;
    comm::act_together(world, [&] {  // a file or folder of the configuration may be missing on one machine
      if (adjust) adjust(config, world.size());
      run = resolve(std::move(config), world.size());
      check_communicator(run.config, /*launched_by_mpi=*/true);
    });
    expect_same_model(world, run.config);
    run.config.run_dir = comm::text_of_rank_0(world, run.config.run_dir);
    return body(world, run);
  });
}

}  // namespace weft::train
