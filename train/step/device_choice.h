// From a configuration's device to the executor that runs its plans, and to what its ranks talk through.
#pragma once

#include <functional>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"
#include "runtime/execute/tuning/gemm_tuning.h"
#include "train/config/config.h"

namespace weft::train {

/// What the choice of a communicator depends on, where a run has started.
struct Surroundings {
  bool mpi = false;  // each rank is a process
  int ranks = 1;
  bool own_device_each = true;  // no two ranks share a GPU
};

/// Throws UserError where `communicator` can't be, as far as that is known before any rank runs: what check_device()
/// refuses, threads under mpirun, processes without.
void check_communicator(const RunConfig& config, bool launched_by_mpi);

/// The communicator of a run on GPUs: `auto` is local for ranks of one process, which share a GPU, nccl for processes
/// with a GPU each, and staged for those that share one. Throws UserError where another that was asked for can't be,
/// and for staged in CUDA graphs.
CommunicatorKind choose_communicator(const RunConfig& config, const Surroundings& surroundings);

/// What ProgramOptions::make_executor takes; null for the CPU. Called, it throws UserError where the machine has no
/// such device. Collective over the world. `tuning`: the
/// algorithms of matrix products; null: the defaults.
execute::MakeExecutor executor_of(const RunConfig& config,
                                  const std::shared_ptr<const execute::GemmTuning>& tuning = nullptr);

}  // namespace weft::train
