// The executor, the communicator and the cores for a configuration's device.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program/program.h"
#include "runtime/execute/state.h"
#include "runtime/execute/tuning/gemm_tuning.h"
#include "train/config/config.h"

namespace weft::train {

/// The facts about a started run on which the choice of a communicator depends.
struct Surroundings {
  Launched launched = Launched::as_threads;
  int ranks = 1;
  int devices = 1;  // GPUs that the ranks would take, each one of its own as far as there are enough

  bool own_device_each() const { return devices == ranks; }
};

/// The number of the GPU of this rank: the ranks of a node take its GPUs in turn.
int device_of(const comm::World& world);
/// Collective over the world.
Surroundings surroundings_of(comm::World& world);

/// The communicator of a run on GPUs: `auto` is nccl for several ranks with a GPU each. If they share GPUs, it is local
/// for ranks of one process, which then all take the first one, and staged for processes. Throws UserError if the
/// configured communicator is impossible (see check_communicator()), and for staged with CUDA graphs.
CommunicatorKind choose_communicator(const RunConfig& config, const Surroundings& surroundings);

/// Throws UserError early where executor_of()'s function would: without a GPU, or by choose_communicator(). Collective
/// over the world.
void expect_devices(comm::World& world, const RunConfig& config);

/// A function for ProgramOptions::make_executor; null for the CPU. The function throws UserError if the machine has no
/// such device. Collective over the world. `tuning`: see execute::CudaSettings.
execute::MakeExecutor executor_of(const RunConfig& config,
                                  const std::shared_ptr<const execute::GemmTuning>& tuning = nullptr);

/// A function for ProgramOptions::bind_cores; null if ranks stay where they are.
execute::BindCores binding_of(const RunConfig& config, const std::filesystem::path& sysfs = "/sys");

}  // namespace weft::train
