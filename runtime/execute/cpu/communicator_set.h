// The communicators of one rank, one for each channel of its plans.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"

namespace weft::execute {

/// The communicators of one rank, by channel; null where the plan's graph has no collective.
class CommunicatorSet {
 public:
  /// The channels' groups of a grid; without one, every group is the world. Of a message channel both ends are made.
  /// Collective over the world: every rank makes the same channels in the same order.
  CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels,
                  const std::optional<graph::Grid>& grid = std::nullopt);
  comm::Communicator* on(graph::Channel channel) const {
    return communicators_[static_cast<std::size_t>(channel)].get();
  }

 private:
  std::vector<std::unique_ptr<comm::Communicator>> communicators_;
};

}  // namespace weft::execute
