// Transfers between host and device with every run of a plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/state.h"

namespace weft::execute {

/// The number of copies that steps use in turn: the host fills one, and the device fetches it, while a step uses the
/// other.
inline constexpr std::size_t kTransferCopies = 2;

/// Tensors of the state that are copied together, packed in pinned memory and in the same way on the device, so that a
/// copy stream moves them while the previous or next step computes.
struct TransferBlock {
  struct Part {
    std::byte* host = nullptr;
    std::byte* device = nullptr;  // where the step's tasks have it
    std::int64_t offset = 0, bytes = 0;
  };
  struct Copy {
    std::byte* pinned = nullptr;
    std::byte* staging = nullptr;
  };
  std::vector<Part> parts;
  std::int64_t bytes = 0;
  std::array<Copy, kTransferCopies> copies = {};
};

struct Transfers {
  TransferBlock uploads, downloads;
};

/// Scalars and inputs that the graph's tasks touch are copied to the device before a run; those that tasks write are
/// copied back. `device_state` is where the state begins on the device.
Transfers find_transfers(const graph::Graph& graph, const State& state, std::byte* device_state, Device& device);

/// From the host's tensors into a copy's pinned memory, and back.
void collect(const TransferBlock& block, std::size_t copy);
void deliver(const TransferBlock& block, std::size_t copy);

}  // namespace weft::execute
