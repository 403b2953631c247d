// What travels between host and device with every run of a plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/device/device.h"
#include "runtime/state.h"

namespace weft {

/// Steps take turns with two copies, so that the host prepares one while the device reads the other.
using PinnedCopies = std::array<std::byte*, 2>;

/// A tensor of the state: its places there, in the pinned copies and on the device.
struct Transfer {
  std::byte* host = nullptr;
  PinnedCopies pinned = {};
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
                         std::map<std::string, PinnedCopies>& pinned);

}  // namespace weft
