// Starts a run's ranks, as threads of this process or as the processes that mpirun started, on one configuration.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/comm/communicator.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// Changes a configuration to suit a number of ranks, before it is resolved.
using AdjustConfig = std::function<void(RunConfig&, std::int64_t ranks)>;

/// Resolves `config` for the ranks that there are, once for all that are threads of a process, and runs `body` on each
/// of them; returns the exit code (see run_ranks). Ranks of MPI have to agree (see rank_agreement.h) and take rank 0's
/// run folder, whose default names the time of the start. A UserError of resolving is thrown when ranks are threads,
/// and reported once when they are processes.
int run_on_ranks(RunConfig config, const std::function<int(comm::World&, const ResolvedRun&)>& body,
                 const AdjustConfig& adjust = {});

}  // namespace weft::train
