// Starts a run's ranks, as threads of this process or as the processes that mpirun started, on one configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/comm/communicator.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// Changes a configuration to suit a number of ranks, before it is resolved.
using AdjustConfig = std::function<void(RunConfig&, std::int64_t ranks)>;

struct RankCount {
  std::int64_t all = 1, on_node = 1;  // on_node: of rank 0, itself included
};

/// Settings for a configuration whose grid is to be chosen (RunConfig::grid_auto), the grid among them.
using ChooseGrid = std::function<std::vector<Setting>(const RunConfig&, const RankCount&)>;

/// Resolves `config`, once per process, runs `body` on each rank and returns the exit code (see run_ranks). MPI ranks
/// must have equal configurations (see rank_agreement.h) and use rank 0's run folder, whose default name has the time
/// of the start. `choose` is called once a run, by rank 0, whose choice all ranks take; without it such a grid is
/// refused. If resolving throws UserError, it is rethrown for ranks that are threads, and reported once for MPI ranks.
int run_on_ranks(RunConfig config, const std::function<int(comm::World&, const ResolvedRun&)>& body,
                 const AdjustConfig& adjust = {}, const ChooseGrid& choose = {});

}  // namespace weft::train
