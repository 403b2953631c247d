// The communicators of one rank, one for each channel of its plans.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"

namespace weft::execute {

/// The communicators of one rank, by channel; null where the plan's graph has no collective.
class CommunicatorSet {
 public:
  /// One group a channel, by group_color(); for messages, a group of two for each neighbour, whichever of the channel
  /// and its other end is asked for. Collective over the world: every rank makes the same channels in the same order.
  CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels, const graph::Grid& grid);
  /// Every group is the world.
  CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels);
  comm::Communicator* on(graph::Channel channel) const {
    return communicators_[static_cast<std::size_t>(channel)].get();
  }

 private:
  void join_neighbours(comm::World& world, const graph::Grid& grid, graph::Channel send);
  void add(comm::World& world, graph::Channel channel, std::unique_ptr<comm::Communicator> communicator);

  std::vector<std::unique_ptr<comm::Communicator>> communicators_;
};

}  // namespace weft::execute
