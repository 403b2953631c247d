// What travels between host and device with every run of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/device/device.h"
#include "runtime/state.h"

namespace weft {

/// A tensor of the state: its places there, in the pinned copy and on the device.
struct Transfer {
  std::byte* host = nullptr;
  std::byte* pinned = nullptr;
  std::byte* device = nullptr;
  std::int64_t bytes = 0;
};

struct Transfers {
  std::vector<Transfer> uploads, downloads;
};

/// Scalars and inputs that the graph's tasks touch go to the device before a run; what tasks write of them comes back.
/// `pinned` has the pinned copies by name, which plans share; those that are missing are made. `device_state` is where
/// the state begins on the device.
Transfers find_transfers(const Graph& graph, const State& state, std::byte* device_state, Device& device,
                         std::map<std::string, std::byte*>& pinned);

}  // namespace weft
