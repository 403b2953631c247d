// The devices of a run's ranks, and the transport of its collectives.
#pragma once

#include <string>
#include <vector>

#include "base/text/json_object.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"

namespace weft::train {

struct RunDevice {
  std::string name;
  std::vector<int> ranks;  // that share it
};

struct RunDevices {
  std::vector<RunDevice> devices = {};  // by their first rank; none: the run is on CPUs
  std::string communicator = {};        // "local", "mpi", "tcp", "staged", "nccl"
  int idle = 0;                         // further GPUs of this machine, where ranks of one process share one
};

/// Collective over the world; every rank learns the same. `gpus`: those of this machine.
RunDevices find_devices(comm::World& world, const execute::ExecutorPlace& place, std::size_t gpus);

/// "2 × NVIDIA H100 80GB HBM3, 4 ranks; communicator staged", and the number of idle GPUs.
std::string to_string(const RunDevices& run);

/// [{"name": "NVIDIA H100 80GB HBM3", "ranks": [0, 1]}]
JsonArray to_json(const RunDevices& run);

}  // namespace weft::train
